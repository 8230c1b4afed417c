"""Members are independent of their pack, and stop for the right reason."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch

from capax.models.transformer import TransformerEnsemble
from capax.specs import Sequences, Training, Transformer
from capax.testing.trained import equal
from capax.training import ensemble, workers
from capax.training.ensemble import AtOnce
from capax.training.loop import train
from capax.training.pack import Outcome, Pack
from capax.training.prepare import prepare
from capax.training.workers import Workers, split

TASK = Sequences(seq_len=5, vocab_size=12, library_size=700, loss="last")
MODEL = Transformer(n_heads=2, d_model=8, d_head=6)


def pack(
    members: Sequence[int],
    task: Sequences = TASK,
    model: Transformer = MODEL,
    training: Training | None = None,
    sizes: Sequence[int] | None = None,
    one_library: bool = False,
    seconds: float | None = None,
) -> Pack:
    sizes = tuple(sizes or [task.library_size] * len(members))
    return Pack(
        task,
        model,
        training or Training(max_epochs=4),
        seeds=(3,) * len(members),
        members=tuple(members),
        sizes=sizes,
        largest=max(sizes),
        mixed=len(set(sizes)) > 1,
        one_library=one_library,
        seconds=seconds,
    )


def flushes() -> bool:
    """Whether torch takes numbers below the normal ones for 0, in this thread."""
    return not torch.tensor(1e-40).mul(1).item()


@pytest.mark.parametrize("at_once", [1, 2])
def test_subnormal_numbers_count_as_0_while_a_learner_computes(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In every thread, and not after it, also where it fails; who takes them for 0 already still does."""
    learner = prepare(pack([0, 1]), lambda: at_once)
    monkeypatch.setattr(ensemble, "CACHE_FLOATS", 2**12)
    seen: list[bool] = []
    computed = learner._micro_losses

    def watched(*args: Any) -> torch.Tensor:
        seen.append(flushes())
        return computed(*args)

    monkeypatch.setattr(learner, "_micro_losses", watched)
    learner.step()
    learner.evaluate([0, 1])
    assert len(seen) > 1
    assert all(seen)
    assert not flushes()
    monkeypatch.setattr(learner, "_micro_losses", None)
    with pytest.raises(TypeError):
        learner.step()
    assert not flushes()
    torch.set_flush_denormal(True)
    try:
        learner.evaluate([0, 1])
        assert flushes()
    finally:
        torch.set_flush_denormal(False)


def results(outcomes: list[Outcome]) -> list[tuple[object, ...]]:
    return [(o.member, o.memorized, o.epochs, o.steps, o.stop_reason, o.curve) for o in outcomes]


@pytest.mark.parametrize(
    ("model", "loss"),
    [
        (MODEL, "last"),
        (Transformer(n_layers=2, d_model=8, d_head=4), "all"),
        (Transformer(d_model=40, n_heads=2), "last"),
        (Transformer(d_model=7, n_heads=3, d_head=5), "all"),  # sizes that no vector of numbers divides
    ],
)
def test_a_member_is_the_same_bit_for_bit_in_any_pack(model: Transformer, loss: str) -> None:
    task = TASK.replace(loss=loss)
    together = results(train(pack(range(4), task, model)))
    pairs = [result for pair in ([0, 1], [2, 3]) for result in results(train(pack(pair, task, model)))]
    assert pairs == together


@pytest.mark.slow
@pytest.mark.parametrize(("loss", "one_library"), [("last", True), ("all", False)])
def test_members_of_several_seeds_are_what_they_are_apart(loss: str, one_library: bool, two_processes: Workers) -> None:
    """Numbers repeat across seeds; outcomes come in the order of the members, whoever trains where."""
    seeds, members = (3, 8, 3, 8, 0), (1, 0, 0, 1, 1)
    joint = replace(pack(members, TASK.replace(loss=loss), one_library=one_library), seeds=seeds)
    apart = [
        outcome
        for part in (slice(0, 2), slice(2, 5))
        for outcome in train(replace(joint, seeds=seeds[part], members=members[part], sizes=(700,) * len(seeds[part])))
    ]
    assert len({outcome.curve for outcome in apart}) == 5
    assert train(joint) == apart
    assert two_processes.train(joint) == apart


def test_a_seeds_members_share_its_one_library() -> None:
    one = replace(pack([0, 1, 0], one_library=True), seeds=(3, 3, 8))
    tokens = prepare(one).library.tokens
    assert torch.equal(tokens[0], tokens[1])
    assert not torch.equal(tokens[0], tokens[2])
    assert prepare(pack([0, 1], one_library=True)).library.tokens.shape[0] == 1


@pytest.mark.very_slow
def test_members_that_leave_change_nothing_for_those_who_stay() -> None:
    """Small libraries are complete early; the last to go has only one that stopped beside it by then."""
    task = TASK.replace(library_size=6)
    training = Training(max_epochs=300, lr=1e-2)
    together = results(train(pack(range(5), task, training=training)))
    assert len({epochs for _, _, epochs, *_ in together}) > 2
    assert together[3:] == results(train(pack([3, 4], task, training=training)))
    assert together[2:4] == results(train(pack([2, 3], task, training=training)))


def test_cutting_a_round_of_several_sizes_changes_nothing() -> None:
    sizes = [3, 700, 40, 520]
    whole = pack(range(4), sizes=sizes)
    together = results(train(whole))
    parts = [replace(whole, seeds=(3, 3), members=(m, m + 1), sizes=tuple(sizes[m : m + 2])) for m in (0, 2)]
    assert [result for part in parts for result in results(train(part))] == together


def test_padding_does_not_change_what_is_learned() -> None:
    """In float64 a member padded beside a larger one learns the same to rounding."""
    training = Training(max_epochs=5, precision="float64")
    beside = train(pack([0, 1], sizes=[30, 600], training=training))[0]
    alone = train(pack([0], sizes=[30], training=training))[0]
    losses = [[loss for *_, loss in outcome.curve[1:]] for outcome in (beside, alone)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-10)


def test_two_processes_give_the_same_as_one(two_processes: Workers) -> None:
    assert results(two_processes.train(pack(range(3)))) == results(Workers(1).train(pack(range(3))))


def test_as_many_processes_are_busy_as_there_are_packs(two_processes: Workers) -> None:
    """Two members make one pack."""
    for members, busy in ((2, 1), (4, 2)):
        two_processes.train(pack(range(members)))
        assert two_processes.busy == busy


def test_a_surely_held_library_is_complete() -> None:
    outcome = train(pack([0], Sequences(library_size=8), Transformer(d_model=16), Training(lr=1e-2)))[0]
    assert outcome.stop_reason == "complete"
    assert outcome.memorized == 8
    assert outcome.curve[-1][:2] == (outcome.epochs, 8)


def test_plateau_comes_after_patience_without_improvement() -> None:
    """A model without width cannot learn: it stops `patience` evaluations after its last improvement."""
    model = Transformer(d_model=1, d_head=1)
    outcome = train(pack([0], model=model, training=Training(patience=7, eval_every=2)))[0]
    assert outcome.stop_reason == "plateau"
    last = [epoch for epoch, *_ in outcome.curve]
    assert all(later - earlier == 2 for earlier, later in pairwise(last))
    assert outcome.memorized == max(memorized for _, memorized, _ in outcome.curve)
    assert outcome.epochs >= outcome.epoch_of_best + 14


def test_budget_of_epochs_is_met_between_evaluations() -> None:
    outcome = train(pack([0], training=Training(max_epochs=5, eval_every=3)))[0]
    assert outcome.stop_reason == "budget"
    assert [epoch for epoch, *_ in outcome.curve] == [0, 3, 5]
    assert outcome.steps == 5 * 2  # 700 items in batches of 512


def test_budget_of_seconds_ends_with_an_evaluation() -> None:
    outcome = train(pack([0, 1], training=Training(), seconds=1e-6))[0]
    assert outcome.stop_reason == "budget"
    assert outcome.steps == 1


@pytest.mark.parametrize("optimizer", ["adam", "soap", "muon"])
def test_a_diverging_member_hurts_no_other(optimizer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Member 1's read-out is made infinite; the others learn what they would have learned."""
    training = Training(max_epochs=4, optimizer=optimizer, basis_every=1)
    healthy = results(train(pack(range(3), training=training)))
    import capax.training.loop as loop

    draw = TransformerEnsemble.initialize

    def poisoned(*args: object, **kwargs: object) -> object:
        ensemble = draw(*args, **kwargs)  # type: ignore[arg-type]
        ensemble.parameters["readout"][1] = torch.inf
        return ensemble

    monkeypatch.setattr(TransformerEnsemble, "initialize", poisoned)
    monkeypatch.setattr(loop, "unreachable", lambda pack, learner: [()] * 3)
    ill = train(pack(range(3), training=training))
    assert ill[1].stop_reason == "diverged"
    assert [results(ill)[0], results(ill)[2]] == [healthy[0], healthy[2]]


@pytest.mark.parametrize("optimizer", ["adam", "soap", "muon"])
def test_a_huge_learning_rate_diverges(optimizer: str) -> None:
    training = Training(lr=1e8, optimizer=optimizer, basis_every=1)
    assert {o.stop_reason for o in train(pack(range(2), training=training))} == {"diverged"}


@pytest.mark.slow
def test_weights_are_those_of_the_best_evaluation() -> None:
    outcome = train(replace(pack(range(2), training=Training(max_epochs=40)), keep_weights=True))[1]
    assert outcome.weights is not None
    from capax.models.transformer import TransformerEnsemble
    from capax.seeds import numpy_generator
    from capax.tasks.sequences import draw

    ensemble = TransformerEnsemble(MODEL, {name: tensor[None] for name, tensor in outcome.weights.items()})
    library = torch.from_numpy(draw(TASK, 700, numpy_generator(3, "library", 1)))
    with torch.no_grad():
        logits = ensemble.logits(library[None, :, :-1], "last")
    assert int((logits[0, :, 0].argmax(-1) == library[:, -1]).sum()) == outcome.memorized


def test_packs_cover_all_members_and_share_the_seconds() -> None:
    parts = split(replace(pack(range(1000), task=TASK.replace(library_size=16)), seconds=60.0), workers=2)
    assert [member for part in parts for member in part.members] == list(range(1000))
    assert max(len(part.members) for part in parts) <= workers.LARGEST_PACK
    rounds = -(-len(parts) // 2)
    assert {part.seconds for part in parts} == {60.0 / rounds}


def test_reduced_precision_learns() -> None:
    outcome = train(
        pack([0], Sequences(library_size=8), Transformer(d_model=16), Training(lr=1e-2, precision="bfloat16"))
    )[0]
    assert outcome.stop_reason == "complete"


@pytest.mark.very_slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
def test_compiled_equals_plain() -> None:
    """Compiled kernels round differently: the losses of the first epochs agree closely, and no note says otherwise.

    In a process of its own: the compiler cannot trace through the checks of shapes that are on in tests. Only the
    training that is compiled imports the compiler, which takes seconds.
    """
    code = """
import json, sys
import capax
task = capax.Sequences(seq_len=5, vocab_size=12, library_size=700)
model = capax.Transformer(n_heads=2, d_model=8, d_head=6)
for compile in (False, True):
    run = capax.measure(task, model, capax.Training(max_epochs=3, compile=compile), restarts=1)
    print(json.dumps([run.members[0].curve.loss[1:], run.notes, "torch._dynamo" in sys.modules]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    (plain, _, imported), (compiled, notes, _) = map(json.loads, done.stdout.splitlines())
    assert not imported
    assert notes == []
    assert compiled == pytest.approx(plain, rel=1e-4)


def _fails_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def compiled(*_: object) -> None:
        raise RuntimeError("InvalidCxxCompiler: No working C++ compiler found")

    monkeypatch.setattr(torch, "compile", lambda _: compiled)


def _fails_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch._inductor.config as inductor

    monkeypatch.setattr(inductor.cpp, "cxx", ("no-such-compiler",))


@pytest.mark.parametrize("fails", [_fails_at_once, pytest.param(_fails_itself, marks=pytest.mark.very_slow)])
def test_without_a_compiler_the_run_says_so_and_goes_on(
    fails: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fails(monkeypatch)
    task = TASK.replace(loss="all")
    compiled = train(pack([0], task, training=Training(max_epochs=2, compile=True)))[0]
    plain = train(pack([0], task, training=Training(max_epochs=2)))[0]
    assert any("trained uncompiled" in note for note in compiled.notes)
    assert compiled.curve == plain.curve


@pytest.mark.slow
@pytest.mark.parametrize("model", [MODEL, Transformer(n_layers=2, d_model=7, n_heads=3, d_head=5, readout="tied")])
def test_micro_batches_at_once_change_no_bit(model: Transformer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their gradients are added up in order, whichever is there first."""
    monkeypatch.setattr("capax.training.ensemble.CACHE_FLOATS", 12_000)
    whole = replace(pack(range(2), TASK.replace(loss="all"), model), keep_weights=True)
    learner = prepare(whole, lambda: 3)
    assert learner._pieces("loss", 512) > 3
    for one, three in zip(train(whole), train(whole, at_once=lambda: 3), strict=True):
        assert equal(one, three)


def test_cores_without_a_pack_compute_micro_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def noted(pack: Pack, *_: object, at_once: AtOnce) -> list[Outcome]:
        asked.append((len(pack.members), at_once()))
        return train(pack)

    monkeypatch.setattr(workers, "train", noted)
    short = Training(max_epochs=1)
    for processes in (1, 2, 5):
        with Workers(processes) as these:
            these.train(pack(range(3), training=short))
    assert asked == [(3, 1), (3, 2), (3, 5)]


def test_on_a_gpu_an_evaluation_is_cut_where_a_step_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library may have many more rows than a batch; its widest activation stays within the same bound."""
    learner = prepare(pack([0, 1]))
    monkeypatch.setattr(learner, "device", "cuda")
    rows = learner.library.rows
    assert [learner._pieces(purpose, rows) for purpose in ("loss", "recall", "information")] == [1, 1, 1]
    monkeypatch.setattr(ensemble, "GPU_FLOATS", 2 * rows * learner.floats_per_row["recall"] // 5)
    assert learner._pieces("recall", rows) in (5, 6)
    assert learner._pieces("loss", rows) == 1
