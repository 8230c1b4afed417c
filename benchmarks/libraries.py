"""Time of a training step of today's block against the same model by x-transformers and by Hugging Face.

Rotary positions, a gated FFN with SiLU, RMS norms (Llama's block); batch 512, d_model 64, 2 heads of 64, one layer,
Adam. Three ways to train it, all in this process, in turn, one thread: a plain loop over the library's module; capax
over the same library's modules (`--model x-transformers`, `--model hf`); and capax's own variant. Figures are
milliseconds of a processor per model and step, medians; ratios are medians over pairs. Llama's FFN has no biases.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from benchmarks.step import BATCH, HEADS, MEMBERS, WIDTH
from capax.specs import HuggingFace, Model, Sequences, Training, Transformer, XTransformers
from capax.training.pack import Pack
from capax.training.prepare import prepare

CHANNELS = 64
GOALS = {"last": 10, "all": 1.5}
SHAPE = {"n_layers": 1, "n_heads": HEADS, "d_model": WIDTH, "d_head": CHANNELS}


@dataclass(frozen=True)
class Case:
    loss: str
    vocab_size: int
    seq_len: int
    tables: str = "frozen"


CASES = [
    Case("last", 16, 32),
    Case("last", 100, 32),
    Case("last", 100, 32, "trained"),
    Case("all", 16, 32),
    Case("all", 100, 32),
    Case("all", 100, 32, "trained"),
]


def libraries(seq_len: int) -> dict[str, Model]:
    """The model by each library."""
    options = {"rotary_pos_emb": True, "rotary_emb_dim": CHANNELS, "ff_glu": True, "ff_swish": True}
    config = {"model_type": "llama", "head_dim": CHANNELS, "intermediate_size": 4 * WIDTH}
    sizes = {name: size for name, size in SHAPE.items() if name != "d_head"}
    return {
        "x-transformers": XTransformers(**SHAPE, set=options | {"use_rmsnorm": True}),
        "Hugging Face": HuggingFace(config=config | {"max_position_embeddings": seq_len}, **sizes),
    }


def native(case: Case) -> Model:
    return Transformer(
        **SHAPE,
        positions="rotary",
        gated=True,
        activation="silu",
        norm="rms",
        embeddings=case.tables,
        readout=case.tables,
    )


def plain_step(model: Model, case: Case) -> Callable[[], None]:
    """One step of the plain loop, as a user would write it."""
    module = model.torch_module({"vocab_size": case.vocab_size, "context": case.seq_len - 1}, 0)
    if case.tables == "frozen":
        for name, parameter in module.named_parameters():
            parameter.requires_grad_(not any(part in name for part in ("token_emb", "to_logits", "embed", "lm_head")))
    optimizer = torch.optim.Adam([p for p in module.parameters() if p.requires_grad])
    tokens = torch.randint(case.vocab_size, (BATCH, case.seq_len))

    def step() -> None:
        logits = module(tokens[:, :-1])
        if case.loss == "last":
            loss = F.cross_entropy(logits[:, -1], tokens[:, -1])
        else:
            loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def capax_step(model: Model, case: Case) -> Callable[[], None]:
    """One step of capax's own learner, the whole of it: batch order, losses, gradients, Adam."""
    members = MEMBERS[case.loss]
    task = Sequences(seq_len=case.seq_len, vocab_size=case.vocab_size, library_size=BATCH, loss=case.loss)
    pack = Pack(
        task,
        model,
        Training(batch_size=BATCH),
        (0,) * members,
        tuple(range(members)),
        (BATCH,) * members,
        BATCH,
        mixed=False,
        one_library=False,
    )
    learner = prepare(pack)
    return lambda: void(learner.step())


def void(_: object) -> None: ...


def seconds(step: Callable[[], None]) -> float:
    started = time.process_time()
    step()
    return time.process_time() - started


def main(pairs: int = 7) -> list[dict[str, object]]:
    torch.set_num_threads(1)
    rows = []
    for case in CASES:
        for library, model in libraries(case.seq_len).items():
            members = MEMBERS[case.loss]
            steps = [plain_step(model, case), capax_step(model, case), capax_step(native(case), case)]
            for step in steps * 2:
                step()
            times = [
                (seconds(steps[0]), seconds(steps[1]) / members, seconds(steps[2]) / members) for _ in range(pairs)
            ]
            plain, adapter, ours = (statistics.median(column) * 1e3 for column in zip(*times, strict=True))
            ratio = statistics.median(one[0] / one[2] for one in times)
            print(
                f"libraries  loss {case.loss:4}  vocab {case.vocab_size:3}  tables {case.tables:7}  {library:14}  "
                f"plain {plain:6.1f} ms  by capax {adapter:6.1f} ms  native {ours:6.2f} ms  "
                f"plain/native {ratio:5.1f} (goal {GOALS[case.loss]:g})",
                flush=True,
            )
            rows.append({**vars(case), "library": library, "plain_ms": plain, "capax_ms": adapter, "native_ms": ours})
    return rows


if __name__ == "__main__":
    main()
