"""How soon a network holds what it can: against a plain loop with torch's Adam, and where the time of a step goes.

One cell: 1 layer, 1 head, width 32, 2000 sequences of 8 out of 100 tokens, loss on all positions; frozen embeddings and
read-out on both sides. Bits as Morris et al. count them, at no cost in time: only steps are on the clock, which counts
this process's CPU seconds (one thread), so that a busy machine moves it less than it moves wall time.

The rival is x-transformers with torch's Adam in a loop as anyone would write it, one run, constant rate. It gets the
best of a grid of batches and rates, by bits after `SCREENING` CPU seconds of each; a second one, `USUAL`, is taken as
it comes.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Callable, Iterable

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode
from x_transformers import Decoder, TransformerWrapper

from capax.specs import Sequences, Training, Transformer
from capax.specs.protocols import CYCLES, RECIPE
from capax.testing.trained import pack
from capax.training.ensemble import Learner
from capax.training.prepare import prepare

TASK = Sequences(seq_len=8, vocab_size=100, library_size=2000, loss="all")
MODEL = Transformer(n_heads=1, d_model=32, d_head=64)
CONVERGING = Training(**CYCLES | RECIPE)
TARGETS = (18_000, 20_000, 21_000)
"""Bits; the goal is for the first. Some nine tenths of what the cell holds are the last."""
GOAL, STEP_GOAL = 20, 1.25
MEMBERS = 3
RATES, BATCHES = (0.001, 0.002, 0.004, 0.008, 0.016), (256, 512, 2000)
SCREENING, LIMIT = 6.0, 120.0
"""CPU seconds of each rival in the screening, and of the best and of the usual one in all."""
USUAL = (512, 0.001)
"""Batch and rate of the rival as it is without a search."""

PROFILED = {
    "length 32, width 64, 2 heads, batch 512, Adam, 1 member": (
        Sequences(seq_len=32, vocab_size=100, library_size=512, loss="all"),
        Transformer(n_heads=2, d_model=64),
        Training(batch_size=512),
        1,
    ),
    "length 8, width 32, 1 head, batch 2000, SOAP, 3 members": (TASK, MODEL, CONVERGING, MEMBERS),
}
KINDS = {
    "products of matrices": ("aten::bmm", "aten::baddbmm", "aten::mm", "aten::addmm"),
    "GELU": ("aten::gelu", "aten::gelu_backward"),
    "softmax, cross-entropy": (
        "aten::_softmax",
        "aten::_softmax_backward_data",
        "aten::_log_softmax",
        "aten::_log_softmax_backward_data",
        "aten::nll_loss_forward",
        "aten::nll_loss_backward",
        "aten::amax",
        "aten::sub",
        "aten::exp_",
        "aten::scatter_add_",
    ),
    "norms": ("aten::native_layer_norm", "aten::native_layer_norm_backward"),
    "copies, fills": ("aten::copy_", "aten::fill_", "aten::zero_"),
    "look-ups": (
        "aten::embedding_dense_backward",
        "aten::index_select",
        "aten::embedding",
        "aten::index",
        "aten::index_add_",
    ),
    "sums, additions": ("aten::add", "aten::add_", "aten::sum", "aten::mul", "aten::mul_"),
    "optimizer alone": ("aten::_fused_adam_", "aten::linalg_qr", "aten::_linalg_eigh", "aten::linalg_eigh"),
}
LEAST_OPERATION_US = 20.0
"""An operation that takes less is counted as overhead: its time is that of calling it, not of numbers."""


class Rival:
    """x-transformers, torch's Adam, a plain loop.

    Attributes:
        steps, seconds: taken so far, and the CPU seconds of these alone.
    """

    def __init__(self, batch: int, rate: float, library: Tensor, seed: int = 0) -> None:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self._model = TransformerWrapper(
                num_tokens=TASK.vocab_size,
                max_seq_len=TASK.seq_len - 1,
                attn_layers=Decoder(
                    dim=MODEL.d_model,
                    depth=1,
                    heads=MODEL.n_heads,
                    attn_dim_head=MODEL.d_head,
                    attn_project_out=True,  # one head has none unless asked for
                ),
            )
        self._model.token_emb.emb.weight.requires_grad_(False)
        self._model.to_logits.weight.requires_grad_(False)
        trained = [p for p in self._model.parameters() if p.requires_grad]
        self.trained = sum(p.numel() for p in trained)
        self._adam = torch.optim.Adam(trained, lr=rate)
        self._library, self._order = library, torch.Generator().manual_seed(seed)
        self.batch, self.rate, self.steps, self.seconds = batch, rate, 0, 0.0

    def epoch(self) -> None:
        """Every item once, in an order of its own."""
        started = time.process_time()
        for rows in torch.randperm(len(self._library), generator=self._order).split(self.batch):
            tokens = self._library[rows]
            logits = self._model(tokens[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
            self._adam.zero_grad()
            loss.backward()
            self._adam.step()
            self.steps += 1
        self.seconds += time.process_time() - started

    def bits(self) -> float:
        """What it knows, summed over the items that it codes better than a uniform guess."""
        with torch.no_grad():
            logits = self._model(self._library[:, :-1])
        each = F.cross_entropy(logits.flatten(0, 1), self._library[:, 1:].flatten(), reduction="none")
        scored = TASK.seq_len - 1
        nats = scored * math.log(TASK.vocab_size) - each.view(-1, scored).sum(1)
        return nats.clamp_min(0).sum().item() / math.log(2)

    def run(self, seconds: float, target: float = math.inf, every: float = 1.0) -> float:
        """Train until so many CPU seconds are spent or so many bits are known; the bits."""
        looked, bits = self.seconds, self.bits()
        while bits < target and self.seconds < seconds:
            self.epoch()
            if self.seconds - looked >= every or self.seconds >= seconds:
                looked, bits = self.seconds, self.bits()
        return bits


def learner(training: Training, members: int, task: Sequences = TASK, model: Transformer = MODEL) -> Learner:
    """Some runs on one library before their first step."""
    return prepare(pack(task, model, training, range(members), one_library=True))


def ratio_of_steps(rounds: int = 15) -> float:
    """A step with SOAP against one with Adam: medians of steps taken in turn."""
    both = {name: learner(CONVERGING.replace(optimizer=name), MEMBERS) for name in ("adam", "soap")}
    times: dict[str, list[float]] = {name: [] for name in both}
    for _ in range(rounds + 3):
        for name, one in both.items():
            started = time.process_time()
            one.step()
            times[name].append(time.process_time() - started)
    adam, soap = (statistics.median(times[name][3:]) * 1e3 / MEMBERS for name in ("adam", "soap"))
    mean = statistics.mean(times["soap"][3:]) / statistics.mean(times["adam"][3:])
    print(
        f"capacity  step of a member: Adam {adam:.1f} ms, SOAP {soap:.1f} ms, ratio {soap / adam:.3f}, of means, with "
        f"new bases, {mean:.3f} (goal {STEP_GOAL})",
        flush=True,
    )
    return soap / adam


def ours(members: int, every: int = 5) -> dict[int, float]:
    """CPU seconds of a run until all members of a pack know each of `TARGETS`."""
    one, seconds, steps, bits = learner(CONVERGING, members), 0.0, 0, [0.0]
    found = {}
    for target in TARGETS:
        while min(bits) < target:
            started = time.process_time()
            for step in range(steps, steps + every):
                one.step(CONVERGING.lr_at(step, None))
            seconds += time.process_time() - started
            steps += every
            bits = [known.clipped if known else 0.0 for known in one.information(range(members))]
        found[target] = seconds / members
        print(
            f"capacity  capax, pack of {members}: {found[target]:.1f} CPU seconds a run to {target / 1e3:g} kbit, "
            f"{steps} steps",
            flush=True,
        )
    return found


def screened(grid: Iterable[tuple[int, float]]) -> list[Rival]:
    """The rivals of a grid, each after the screening, best first."""
    library = learner(CONVERGING, 1).library.tokens[0]
    found = []
    for batch, rate in grid:
        rival = Rival(batch, rate, library)
        bits = rival.run(SCREENING, every=SCREENING)
        print(
            f"capacity  rival, batch {batch:4}, rate {rate:g}: {bits:6.0f} bits after {rival.seconds:.1f} CPU seconds, "
            f"{rival.steps} steps of {1e3 * rival.seconds / rival.steps:.1f} ms; {rival.trained} trained numbers",
            flush=True,
        )
        found.append((bits, rival))
    return [rival for _, rival in sorted(found, key=lambda each: -each[0])]


def raced(rival: Rival) -> dict[int, float]:
    """CPU seconds until a rival knows each of `TARGETS`; those that it does not know within `LIMIT` are missing."""
    found = {}
    for target in TARGETS:
        bits = rival.run(LIMIT, target)
        print(
            f"capacity  rival, batch {rival.batch}, rate {rival.rate:g}: {rival.seconds:.1f} CPU seconds, "
            f"{rival.steps} steps {'to' if bits >= target else 'stopped before'} {target / 1e3:g} kbit "
            f"({bits:.0f} bits)",
            flush=True,
        )
        if bits < target:
            break
        found[target] = rival.seconds
    return found


def peak(size: int = 1024, rounds: int = 7) -> float:
    """Operations a second of a large product of matrices: the best of some."""
    matrix = torch.randn(size, size, generator=torch.Generator().manual_seed(0))
    return 2 * size**3 / min(seconds(lambda: matrix @ matrix) for _ in range(rounds))


def seconds(work: Callable[[], object]) -> float:
    """CPU seconds of some work."""
    started = time.process_time()
    work()
    return time.process_time() - started


def where_time_goes(what: str, steps: int = 10) -> dict[str, float]:
    """Shares of a step's time by kind of operation; products also as they would be at the peak."""
    task, model, training, members = PROFILED[what]
    one = learner(training, members, task, model)
    for _ in range(3):
        one.step()
    with FlopCounterMode(display=False) as counter:
        one.step()
    whole = statistics.median(seconds(one.step) for _ in range(steps))
    rate = peak()
    started = time.perf_counter()
    with profile(activities=[ProfilerActivity.CPU]) as found:
        profiled = seconds(lambda: [one.step() for _ in range(steps)])
    # its clock is that of the wall, of which this process has a share, and it takes time itself, outside of operations
    scale = profiled / (time.perf_counter() - started) / steps / whole
    shares, calls = dict.fromkeys([*KINDS, "other operations"], 0.0), 0.0
    for each in found.key_averages():
        spent = each.self_cpu_time_total / 1e6 * scale
        if each.key.startswith("aten::") and each.self_cpu_time_total / each.count >= LEAST_OPERATION_US:
            kind = next((name for name, names in KINDS.items() if each.key in names), "other operations")
            shares[kind] += spent
        elif each.key.startswith("aten::"):
            calls += each.count / steps
    operations = counter.get_total_flops()
    ideal = operations / rate
    shares["Python and calls"] = 1 - sum(shares.values())
    print(
        f"capacity  profile, {what}: {whole * 1e3:.1f} ms a step; products {operations / 1e9:.2f} GFLOP, "
        f"{ideal * 1e3:.1f} ms ({ideal / whole:.0%}) at the peak of {rate / 1e9:.0f} GFLOP/s; "
        f"{calls:.0f} small operations",
        flush=True,
    )
    for kind, share in sorted(shares.items(), key=lambda each: -each[1]):
        print(f"capacity      {kind:22} {share:6.1%}  {share * whole * 1e3:6.1f} ms", flush=True)
    return shares


def race() -> None:
    """Ours and the rival's CPU seconds to the same bits; ours before and after, since the machine may change."""
    before, packed = ours(1), ours(MEMBERS)
    rivals = screened((batch, rate) for batch in BATCHES for rate in RATES)
    usual = next(rival for rival in rivals if (rival.batch, rival.rate) == USUAL)
    raced_by = {"best": raced(rivals[0]), "usual": raced(usual)}
    after = ours(1)
    for name, theirs in raced_by.items():
        for target in TARGETS:
            least, spent = "" if target in theirs else "more than ", theirs.get(target, LIMIT)
            alone = spent / statistics.mean([before[target], after[target]])
            print(
                f"capacity  to {target / 1e3:g} kbit against the {name} rival: {least}{alone:.1f} times fewer CPU "
                f"seconds alone, {least}{spent / packed[target]:.1f} in a pack of {MEMBERS} (goal {GOAL} to "
                f"{TARGETS[0] / 1e3:g} against the best)",
                flush=True,
            )


def profiles() -> None:
    """Where the time of each profiled step goes."""
    for what in PROFILED:
        where_time_goes(what)


def main() -> None:
    torch.set_num_threads(1)
    ratio_of_steps()
    profiles()
    race()


if __name__ == "__main__":
    torch.set_num_threads(1)
    parts = {"ratio": ratio_of_steps, "profiles": profiles, "race": race}
    for name in sys.argv[1:] or parts:
        parts[name]()
