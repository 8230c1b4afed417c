"""Optimizers of stacked parameters are each member's own: against plain implementations and torch's, one by one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

import capax
from capax import machine
from capax.errors import SpecError
from capax.specs import KeyQueryChannel, Relations, Run, Sequences, Training, Transformer
from capax.testing.trained import outcomes, pack
from capax.training.optimizers import Adam, optimizer
from capax.training.optimizers.muon import COEFFICIENTS, LEAST_NORM, Muon, orthogonalized
from capax.training.optimizers.soap import LONGEST_SIDE, Soap, _eigenbases, orthonormal_by_size
from capax.training.prepare import initial, prepare
from capax.training.room import COPIES, in_bases, refuse_too_large

MEMBERS, LR = 3, 0.01
SHAPES: dict[str, tuple[int, ...]] = {
    "wide": (4, 7),
    "tall": (9, 5),
    "square": (6, 6),
    "square heads": (2, 4, 4),
    "heads": (2, 6, 3),
    "convolution": (3, 2, 3, 3),
    "row": (1, 5),
    "column": (5, 1),
    "number": (1, 1),
    "bias": (7,),
    "gain": (6,),
}
SOAP = Training(optimizer="soap", beta1=0.8, beta2=0.95, basis_beta=0.9, basis_every=4)
MUON = Training(optimizer="muon", beta1=0.95)

Plain = Callable[[Tensor, list[Tensor], float], Tensor]
"""One matrix, its gradients and the learning rate: what the matrix becomes."""


def drawn(shapes: Mapping[str, tuple[int, ...]], members: int = MEMBERS, seed: int = 0) -> dict[str, Tensor]:
    """Eighths, whose products have no rounding: two ways to sum up a first average then agree on its null space."""
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.randint(-16, 17, (members, *shape), generator=generator).double() / 8
        for name, shape in shapes.items()
    }


def gradients(
    steps: int, shapes: Mapping[str, tuple[int, ...]] = SHAPES, members: int = MEMBERS
) -> list[dict[str, Tensor]]:
    """Some hundredths large: in its own bases a first one is diagonal, and the rounding beside that is over 1e-8."""
    found = (drawn(shapes, members, seed) for seed in range(1, steps + 1))
    return [{name: gradient / 64 for name, gradient in given.items()} for given in found]


def after(training: Training, given: list[dict[str, Tensor]], **options: Any) -> dict[str, Tensor]:
    """The parameters of all members after steps with these gradients."""
    shapes = {name: tuple(g.shape[1:]) for name, g in given[0].items()}
    parameters = drawn(shapes, next(iter(given[0].values())).shape[0])
    stepped(optimizer(parameters, training, **options), parameters, given)
    return parameters


def stepped(one: Adam, parameters: Mapping[str, Tensor], given: list[dict[str, Tensor]]) -> None:
    for found in given:
        for name, parameter in parameters.items():
            assert parameter.grad is not None
            parameter.grad.copy_(found[name])
        one.step(LR)
        assert not any(p.grad.any() for p in parameters.values() if p.grad is not None)


def matrices(stacked: Tensor) -> Iterator[tuple[int, ...]]:
    """The places of a parameter's matrices."""
    return iter(
        torch.cartesian_prod(*(torch.arange(n) for n in stacked.shape[:-2])).view(-1, stacked.dim() - 2).tolist()
    )


def one_by_one(plain: Plain, given: list[dict[str, Tensor]], lr: float = LR) -> dict[str, Tensor]:
    """What a plain optimizer of one matrix makes of each matrix, and torch's Adam of each vector."""
    shapes = {name: tuple(g.shape[1:]) for name, g in given[0].items()}
    found = drawn(shapes, next(iter(given[0].values())).shape[0])
    for name, stacked in found.items():
        if len(shapes[name]) == 1:
            stacked.copy_(torchs_adam(stacked, [g[name] for g in given], lr, betas=(SOAP.beta1, SOAP.beta2)))
            continue
        for place in map(tuple, matrices(stacked)):
            stacked[place] = plain(stacked[place], [g[name][place] for g in given], lr)
    return found


def torchs_adam(value: Tensor, given: list[Tensor], lr: float, **options: Any) -> Tensor:
    parameter = value.clone().requires_grad_()
    adam = torch.optim.Adam([parameter], lr=lr, **options)
    for gradient in given:
        parameter.grad = gradient.clone()
        adam.step()
    return parameter.detach()


def plain_soap(weight: Tensor, given: list[Tensor], lr: float, longest: int = LONGEST_SIDE) -> Tensor:
    """Algorithm 3 of Vyas et al. (2024) with QR for new bases, of one matrix; sides of 1 have one basis only."""
    beta1, beta2, kept = SOAP.beta1, SOAP.beta2, SOAP.basis_beta
    weight, (m, n) = weight.clone(), weight.shape
    left, right = torch.zeros(m, m, dtype=weight.dtype), torch.zeros(n, n, dtype=weight.dtype)
    turn_left, turn_right = torch.eye(m, dtype=weight.dtype), torch.eye(n, dtype=weight.dtype)
    mean, square = torch.zeros_like(weight), torch.zeros_like(weight)
    for step, gradient in enumerate(given):
        left = kept * left + (1 - kept) * (gradient @ gradient.T)
        right = kept * right + (1 - kept) * (gradient.T @ gradient)
        if step % SOAP.basis_every == 0:
            old = turn_left, turn_right
            if m <= longest:
                turn_left, rows = new_basis(left, turn_left, step)
                square = square[rows]
            if n <= longest:
                turn_right, columns = new_basis(right, turn_right, step)
                square = square[:, columns]
            mean = turn_left.T @ (old[0] @ mean @ old[1].T) @ turn_right
        turned = turn_left.T @ gradient @ turn_right
        mean = beta1 * mean + (1 - beta1) * turned
        square = beta2 * square + (1 - beta2) * turned**2
        direction = mean / (1 - beta1 ** (step + 1)) / ((square / (1 - beta2 ** (step + 1))).sqrt() + 1e-8)
        weight = weight - lr * turn_left @ direction @ turn_right.T
    return weight


def new_basis(average: Tensor, basis: Tensor, step: int) -> tuple[Tensor, Tensor]:
    """Eigenvectors at first, then one power iteration and QR; and the order that the old basis is put in."""
    if step == 0:
        return torch.linalg.eigh(average).eigenvectors.flip(1), torch.arange(len(average))
    order = (basis.T @ average @ basis).diagonal().argsort(descending=True)
    return torch.linalg.qr(average @ basis[:, order]).Q, order


def plain_newton_schulz(matrix: Tensor) -> Tensor:
    """By singular values: the iteration changes these alone."""
    a, b, c = COEFFICIENTS
    left, values, right = torch.linalg.svd(matrix / max(matrix.norm().item(), LEAST_NORM), full_matrices=False)
    for _ in range(5):
        values = a * values + b * values**3 + c * values**5
    return left @ values.diag() @ right


def plain_muon(weight: Tensor, given: list[Tensor], lr: float) -> Tensor:
    weight, momentum = weight.clone(), torch.zeros_like(weight)
    for gradient in given:
        momentum = MUON.beta1 * momentum + (1 - MUON.beta1) * gradient
        direction = MUON.beta1 * momentum + (1 - MUON.beta1) * gradient
        weight = weight - lr * 0.2 * math.sqrt(max(weight.shape)) * plain_newton_schulz(direction)
    return weight


def assert_close(found: Mapping[str, Tensor], expected: Mapping[str, Tensor], tolerance: float = 1e-10) -> None:
    assert found.keys() == expected.keys()
    for name in found:
        assert (found[name] - expected[name]).abs().max() <= tolerance, name


def test_soap_is_the_papers_algorithm_of_every_matrix() -> None:
    """Of each member and head by itself, with bases made anew six times; vectors are Adam's."""
    given = gradients(25)
    assert_close(after(SOAP, given), one_by_one(plain_soap, given))


def test_soap_leaves_the_coordinates_of_long_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("capax.training.optimizers.soap.LONGEST_SIDE", 5)
    given = gradients(9)
    expected = one_by_one(lambda weight, found, lr: plain_soap(weight, found, lr, longest=5), given)
    assert_close(after(SOAP, given), expected)


def test_soap_of_vectors_is_adam() -> None:
    given = gradients(9, {"bias": (3,), "gain": (4,)})
    adam = after(SOAP.replace(optimizer="adam"), given)
    assert_close(after(SOAP, given), adam, 0.0)
    assert_close(after(MUON.replace(optimizer="muon", beta1=0.8, beta2=0.95), given), adam, 0.0)


@pytest.mark.slow
def test_muon_is_newton_schulz_of_every_matrix() -> None:
    shapes = {name: shape for name, shape in SHAPES.items() if len(shape) > 1}
    given = gradients(25, shapes)
    assert_close(after(MUON, given), one_by_one(plain_muon, given))


@pytest.mark.parametrize("name", ["wide", "tall", "square"])
def test_muon_is_torchs_but_for_its_bfloat16(name: str) -> None:
    given = [g[name] for g in gradients(5)]
    found = after(MUON, [{name: g} for g in given])[name]
    start = drawn({name: SHAPES[name]})[name]
    for member in range(MEMBERS):
        parameter = start[member].clone().requires_grad_()
        torchs = torch.optim.Muon([parameter], lr=LR, weight_decay=0, momentum=0.95, adjust_lr_fn="match_rms_adamw")
        for gradient in given:
            parameter.grad = gradient[member].clone()
            torchs.step()
        moved = (parameter.detach() - start[member]).norm()
        assert (found[member] - parameter.detach()).norm() <= 0.03 * moved


def test_newton_schulz_moves_singular_values_towards_one() -> None:
    values = torch.linalg.svdvals(orthogonalized(drawn({"one": (8, 20)})["one"]))
    assert values.min() > 0.6
    assert values.max() < 1.3


def test_adam_of_gains_is_torchs_with_two_groups() -> None:
    given = gradients(12)
    found = after(Training(gain_lr=6.0), given, gains=("gain",))
    parameters = {name: p.requires_grad_() for name, p in drawn(SHAPES).items()}
    gain = parameters.pop("gain")
    adam = torch.optim.Adam([{"params": list(parameters.values())}, {"params": [gain], "lr": 6 * LR}], lr=LR)
    parameters["gain"] = gain
    for gradient in given:
        for name, parameter in parameters.items():
            parameter.grad = gradient[name].clone()
        adam.step()
    assert_close(found, {name: parameters[name].detach() for name in found}, 1e-12)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-6), (torch.float64, 1e-14)])
def test_bases_of_one_size_together_are_those_of_qr(dtype: torch.dtype, tolerance: float) -> None:
    """As on a GPU: of several sizes, without full rank, of columns of very different lengths, of none."""
    draw = torch.Generator().manual_seed(0)
    shapes = {("a", "left"): (3, 7), ("a", "right"): (3, 1), ("b", "left"): (3, 2, 7), ("c", "left"): (3, 40)}
    given = {p: torch.randn(*shape, shape[-1], generator=draw, dtype=dtype) for p, shape in shapes.items()}
    given["a", "left"][1, :, 3:] = 0
    given["b", "left"][0, 1] = 0
    given["c", "left"][2] *= torch.logspace(0, -8, 40, dtype=dtype)
    given["c", "left"][0] = given["c", "left"][0, :, :1] @ given["c", "left"][0, :1]
    found = orthonormal_by_size(given)
    assert list(found) == list(given)
    for place, matrices in given.items():
        assert found[place].shape == matrices.shape
        torch.testing.assert_close(found[place], torch.linalg.qr(matrices)[0], rtol=0, atol=tolerance)
    bad = torch.full_like(given["c", "left"], math.nan)
    bad[1:] = given["c", "left"][1:]
    spoiled = orthonormal_by_size({("c", "left"): bad})["c", "left"]
    torch.testing.assert_close(spoiled[1:], found["c", "left"][1:], rtol=0, atol=tolerance)


@pytest.mark.parametrize("training", [SOAP, MUON], ids=["soap", "muon"])
def test_gains_move_so_many_times_as_far(training: Training) -> None:
    """The gain and nothing else; its gradients are the same here whatever it is."""
    given, start = gradients(6), drawn(SHAPES)
    plain, quick = after(training, given), after(training.replace(gain_lr=6.0), given, gains=("gain",))
    assert_close({"moved": quick.pop("gain") - start["gain"]}, {"moved": 6 * (plain.pop("gain") - start["gain"])})
    assert_close(quick, plain, 0.0)


@pytest.mark.parametrize("training", [Training(gain_lr=2.0), SOAP, MUON], ids=["adam", "soap", "muon"])
@pytest.mark.parametrize("cut", [0, 1, 4, 6, 8])
def test_another_goes_on_with_what_one_remembers(training: Training, cut: int) -> None:
    """Before, at and between new bases; with all members, and with two of them in another order."""
    given = gradients(11)
    whole = after(training, given, gains=("gain",))
    half = drawn(SHAPES)
    one = optimizer(half, training, ("gain",))
    stepped(one, half, given[:cut])
    for chosen in [0, 1, 2], [2, 0]:
        kept = {n: {m: v[chosen] if v.dim() else v for m, v in of.items()} for n, of in one.moments().items()}
        rest = {name: parameter[chosen].clone() for name, parameter in half.items()}
        other = optimizer(rest, training, ("gain",))
        other.remember(kept)
        stepped(other, rest, [{name: g[chosen] for name, g in found.items()} for found in given[cut:]])
        assert all(torch.equal(rest[name], whole[name][chosen]) for name in rest)


@pytest.mark.parametrize("training", [SOAP, MUON], ids=["soap", "muon"])
@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e200])
@pytest.mark.parametrize("first", [0, 2, 5])
def test_a_member_without_numbers_hurts_no_other(training: Training, bad: float, first: int) -> None:
    """From the first step, whose eigenvectors cannot be had; or from a later one, into new bases."""
    given = gradients(10)
    expected = after(training, given)
    for found in given[first:]:
        for gradient in found.values():
            gradient[1] *= bad
    spoiled = after(training, given)
    for name, parameter in expected.items():
        assert torch.equal(spoiled[name][[0, 2]], parameter[[0, 2]]), name
    if not bad < math.inf:
        assert not spoiled["square"][1].isfinite().any()


@pytest.mark.parametrize("precision", [torch.float32, torch.float64])
@pytest.mark.parametrize("training", [SOAP, MUON], ids=["soap", "muon"])
def test_what_has_had_no_gradient_stays(training: Training, precision: torch.dtype) -> None:
    """A smaller head's padding, and a token that no batch had yet; the rest is as without the padding."""
    small, large = {"query": (2, 6, 3)}, {"query": (2, 6, 5)}
    given = [{"query": g["query"].to(precision) / 7} for g in gradients(20, small)]
    padded = [{"query": torch.nn.functional.pad(g["query"], (0, 2))} for g in given]
    parameters = {"query": torch.nn.functional.pad(drawn(small)["query"].to(precision), (0, 2))}
    stepped(optimizer(parameters, training), parameters, padded)
    alone = {"query": drawn(small)["query"].to(precision)}
    stepped(optimizer(alone, training), alone, given)
    assert parameters["query"].shape[1:] == large["query"]
    assert not parameters["query"][..., 3:].any()
    assert_close({"query": parameters["query"][..., :3]}, alone, 1e-10 if precision == torch.float64 else 1e-3)


def test_rows_that_come_late_are_trained_from_then_on() -> None:
    given = gradients(8, {"tokens": (5, 4)})
    for found in given[:5]:
        found["tokens"][:, 2] = 0
    half = drawn({"tokens": (5, 4)})
    one = optimizer(half, SOAP)
    stepped(one, half, given[:5])
    assert torch.equal(half["tokens"][:, 2], drawn({"tokens": (5, 4)})["tokens"][:, 2])
    stepped(one, half, given[5:6])
    assert (half["tokens"][:, 2] != drawn({"tokens": (5, 4)})["tokens"][:, 2]).all()


@pytest.mark.parametrize("cycle_steps", [1, 3, 10])
def test_cycles_are_torchs_warm_restarts(cycle_steps: int) -> None:
    training = Training(schedule="cycles", cycle_steps=cycle_steps, lr=0.3)
    torchs = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.3)
    restarts = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(torchs, T_0=cycle_steps, T_mult=2)
    for step in range(15 * cycle_steps):
        assert training.lr_at(step, None) == pytest.approx(torchs.param_groups[0]["lr"], abs=1e-12)
        torchs.step()
        restarts.step()


@pytest.mark.parametrize(
    ("cycle_steps", "warmup", "decay"), [(1, 0.1, 1.0), (7, 0.3, 0.7), (20, 0.1, 0.5), (10, 0.25, 1.0)]
)
def test_each_cycle_begins_with_a_warm_up(cycle_steps: int, warmup: float, decay: float) -> None:
    """Cycle by cycle as they are laid end to end."""
    training = Training(schedule="cycles", cycle_steps=cycle_steps, lr=0.3, warmup=warmup, cycle_decay=decay)
    expected: list[float] = []
    for cycle in range(4):
        length, highest = cycle_steps * 2**cycle, 0.3 * decay**cycle
        rising = warmup * length
        assert training.cycle(len(expected)) == (len(expected), length)
        for step in range(length):
            share = (step - rising) / (length - rising)
            up, down = 0.01 + 0.99 * step / rising, 0.5 + 0.5 * math.cos(math.pi * share)
            expected.append(highest * (up if step < rising else down))
    assert [training.lr_at(step, None) for step in range(len(expected))] == pytest.approx(expected, abs=1e-12)


def test_cycles_need_no_bits_but_their_tolerance_does() -> None:
    """Relations have no probabilities: the best evaluation counts, within a cycle or at its end."""
    task, model = Relations(n_items=8), KeyQueryChannel(n_heads=2, d_model=8, d_head=2)
    training = Training(optimizer="soap", lr=0.05, schedule="cycles", cycle_steps=5, max_steps=35, eval_steps=2)
    for outcome in outcomes(task, model, training, [0, 1]):
        assert outcome.cycles == ()
        assert outcome.epoch_of_best > 0
    run = Run(task=task, model=model, training=training)
    with pytest.raises(SpecError, match="best_by: counts bits, and task 'relations'"):
        run.replace(training=Training(stop_when_complete=False, best_by="loss"))
    with pytest.raises(SpecError, match="cycle_tolerance: counts bits, and task 'relations'"):
        run.replace(training=training.replace(cycle_tolerance=0.1))


@pytest.mark.parametrize("optimizer", ["adam", "soap", "muon"])
def test_room_is_that_of_what_is_remembered(optimizer: str) -> None:
    task, model = Sequences(seq_len=4, vocab_size=9, library_size=20), Transformer(n_heads=2, d_model=6, d_head=4)
    training = Training(optimizer=optimizer)
    learner = prepare(pack(task, model, training, [0, 1]))
    learner.step()
    kept = [value for name, value in learner.tensors().items() if name.startswith("optimizer/") and value.dim()]
    remembered = sum(value[0].numel() for value in kept)
    table, trained = model.parameters(**task.sizes()), learner.ensemble.parameter_counts()["trainable"]
    moments = 2 * trained
    assert remembered == moments + (in_bases(table) if optimizer == "soap" else 0)
    assert COPIES[optimizer] == 4 + (optimizer != "adam")


def test_bases_count_in_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "memory", lambda: 6_000_000)
    refuse_too_large(run := Run(task=Sequences(library_size=100), model=Transformer(d_model=128)))
    soap = run.replace(training=capax.Training(optimizer="soap"))
    with pytest.raises(SpecError, match="memory: this run needs at least"):
        refuse_too_large(soap)


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["soap", "muon"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_they_learn_in_lower_precision(precision: str, optimizer: str) -> None:
    """What is remembered is in the weights' precision, float32, whatever that of products is."""
    task, model = Sequences(seq_len=4, vocab_size=9, library_size=20, loss="all"), Transformer(d_model=8, d_head=4)
    learner = prepare(pack(task, model, Training(optimizer=optimizer, precision=precision, basis_every=3), [0, 1]))
    losses = [learner.step(0.02)[0] for _ in range(30)]
    assert (losses[-1] < losses[0] / 1.2).all()
    assert {value.dtype for name, value in learner.tensors().items() if name.startswith("optimizer")} == {torch.float32}


def test_bases_are_found_where_single_precision_gives_up_and_the_others_keep_every_bit() -> None:
    """A table of which a batch has few tokens, some much rarer than others: LAPACK fails on its average."""
    generator = torch.Generator().manual_seed(0)
    table = torch.zeros(281, 16)
    rows = torch.randperm(281, generator=generator)[:35]
    sizes = 10.0 ** torch.randn(35, 1, generator=generator)
    table[rows] = 1e-3 * torch.randn(35, 16, generator=generator) * sizes
    other = torch.randn(281, 281, generator=generator)
    hard, easy = table @ table.T, other @ other.T
    bases = _eigenbases(torch.stack([easy, hard]))
    assert torch.equal(bases[0], _eigenbases(easy[None])[0])
    turned = bases[1].double().T @ hard.double() @ bases[1].double()
    assert torch.allclose(turned, turned.diagonal().diag(), atol=1e-5 * float(hard.abs().max()))
    assert torch.allclose(bases[1].T @ bases[1], torch.eye(281), atol=1e-5)
    assert (turned.diagonal()[:-1] >= turned.diagonal()[1:] - 1e-5 * float(hard.abs().max())).all()


def test_biases_of_several_experts_are_no_matrices() -> None:
    run = Run(
        task=Sequences(seq_len=4, vocab_size=8, library_size=16), model=Transformer(d_model=8, n_experts=4, top_k=2)
    )
    parameters = dict(initial(run).trainable)
    biases = {name for name, p in parameters.items() if name.endswith("bias") and p.ndim > 2}
    assert biases, "each expert has its own"
    matrices = {name for name, p in parameters.items() if p.ndim > 2} - biases
    assert set(Muon(parameters, Training(optimizer="muon"))._matrices) == matrices
    assert set(Soap(parameters, Training(optimizer="soap"))._sides) == matrices
