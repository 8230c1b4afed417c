"""The ensemble against x-transformers, against a plain computation, and against itself with another member changed."""

from __future__ import annotations

import json
import math
import pathlib
from typing import Any, NamedTuple, get_args

import pytest
import torch
import torch.nn.functional as F
from hypothesis import example, given, settings
from hypothesis import strategies as st
from reference import (
    assert_same,
    from_x_transformers,
    members_of,
    plain_logits,
    plain_loss,
    random_tokens,
    randomized,
    stacked,
)
from safetensors import safe_open
from scipy import stats
from torch import Tensor
from x_transformers import Decoder, TransformerWrapper

from capax.models.mixers import softmax
from capax.models.transformer import Scored, TransformerEnsemble
from capax.specs import Sequences, Training, Transformer
from capax.specs.attention import Kind
from capax.tasks.sequences import SequenceLibrary
from capax.training import ensemble as training_ensemble
from capax.training.ensemble import BatchOrder, Learner

PAPER_FILE = pathlib.Path(__file__).parent / "data" / "x_transformers_1_30_1.safetensors"
ALL_TRAINED = {"embeddings": "trained", "readout": "trained", "positions": "trained"}
TIED = ALL_TRAINED | {"readout": "tied"}


class Path(NamedTuple):
    """One way to compute the attention of a model: what is scored and what is decided for it."""

    scored: Scored
    mixes: bool = False
    sequences: int = 1
    factors: bool = False
    sign: str | None = None  # the shared tensor that says the path is taken


MANY = 10**9
"""Sequences of a step with which every table pays."""

EVERY_QUERY = {
    "projected": Path("all"),
    "mixed": Path("all", mixes=True),
    "looked up": Path("all", mixes=True, sequences=MANY, sign="asked"),
}
LAST_OF_ONE = {"last": Path("last"), "last, factored": Path("last", factors=True, sign="token_part")}
LAST_OF_SEVERAL = {f"last of several, {name}": path._replace(scored="last") for name, path in EVERY_QUERY.items()}
PATHS = EVERY_QUERY | LAST_OF_ONE | LAST_OF_SEVERAL


def paths_of(spec: Transformer) -> dict[str, Path]:
    """The paths that exist at a depth: one layer may factor its only query, more need every query of the first."""
    paths = EVERY_QUERY | (LAST_OF_ONE if spec.n_layers == 1 else LAST_OF_SEVERAL)
    return {
        name: path for name, path in paths.items() if not path.sign or (spec.has_table and spec.attention == "softmax")
    }


def logits_by(path: Path, ensemble: TransformerEnsemble, tokens: Tensor) -> Tensor:
    """The logits along one path, whether it pays or not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(softmax, "factoring_pays", lambda *sizes: path.factors)
        patch.setattr(softmax, "mixes_inputs", lambda *sizes: path.mixes)
        shared = ensemble.shared(path.scored, path.sequences)
        assert {"asked", "token_part"} & shared.keys() == ({path.sign} if path.sign else set())
        return ensemble.logits(tokens, path.scored, shared)


def gradients(parameters: dict[str, Tensor], loss: Tensor) -> dict[str, Tensor]:
    """By name; zero where the loss does not depend on a parameter."""
    trained = {name: p for name, p in parameters.items() if p.requires_grad}
    found = torch.autograd.grad(
        loss, list(trained.values()), retain_graph=True, allow_unused=True, materialize_grads=True
    )
    return dict(zip(trained, found, strict=True))


def losses(spec: Transformer, logits: Tensor, batch: Tensor) -> Tensor:
    """Each member's mean loss, from the task."""
    vocab_size = logits.shape[-1]
    task = Sequences(seq_len=batch.shape[2], vocab_size=vocab_size, library_size=1)
    weight = torch.full(batch.shape[:2], 1 / batch.shape[1], dtype=logits.dtype)
    return SequenceLibrary(task, batch, (batch.shape[1],)).losses(logits, batch, weight)


# x-transformers


def x_transformers(spec: Transformer, vocab_size: int, context: int, dtype: torch.dtype, **options: Any) -> Any:
    """Its model of this shape, with gains and biases (and all the rest) moved from their initial values."""
    with torch.random.fork_rng():
        torch.manual_seed(context)
        decoder = Decoder(
            dim=spec.d_model,
            depth=spec.n_layers,
            heads=spec.n_heads,
            attn_dim_head=spec.d_head,
            attn_project_out=True,  # from version 2.17 on, one head has no output projection unless asked for
            **options,
        )
        model = TransformerWrapper(num_tokens=vocab_size, max_seq_len=context, attn_layers=decoder).to(dtype)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += 0.3 * torch.randn_like(parameter)
    return model


@pytest.mark.parametrize("scored", ["all", "last"])
@pytest.mark.parametrize(
    ("vocab_size", "seq_len", "d_model", "n_layers", "n_heads", "d_head", "members"),
    [
        (100, 9, 32, 1, 2, 64, 2),
        (50, 17, 24, 2, 3, 64, 2),
        (10, 9, 16, 1, 1, 64, 3),
        (30, 2, 8, 3, 1, 16, 2),
        (5, 33, 20, 3, 4, 7, 1),
    ],
)
def test_equals_x_transformers(
    vocab_size: int, seq_len: int, d_model: int, n_layers: int, n_heads: int, d_head: int, members: int, scored: Scored
) -> None:
    spec = Transformer(n_layers=n_layers, n_heads=n_heads, d_model=d_model, d_head=d_head, **ALL_TRAINED)
    for dtype, tolerance in (torch.float32, 1e-5), (torch.float64, 1e-6):  # its softmax is always in float32
        theirs = [x_transformers(spec, vocab_size, seq_len - 1, dtype) for _ in range(members)]
        with torch.no_grad():
            for member, model in enumerate(theirs):
                for parameter in model.parameters():
                    parameter *= 1 + 0.1 * member
        ours = stacked(spec, [from_x_transformers(m.state_dict(), spec, gain="gamma", gain_offset=1.0) for m in theirs])
        batch = random_tokens(members, 6, seq_len, vocab_size, seed=n_layers)
        logits = ours.logits(batch[:, :, :-1], scored)
        loss = losses(spec, logits, batch)
        found = gradients(ours.parameters, loss.sum())
        for member, model in enumerate(theirs):
            p = logits.shape[2]
            expected = model(batch[member, :, :-1])[:, -p:]
            expected_loss = F.cross_entropy(expected.transpose(1, 2), batch[member, :, -p:])
            named = dict(model.named_parameters())
            their_gradients = from_x_transformers(gradients(named, expected_loss), spec, gain="gamma", gain_offset=0.0)
            assert_same(logits[member], expected, tolerance, f"{dtype}, member {member}: logits")
            assert_same(loss[member], expected_loss, tolerance, f"{dtype}, member {member}: loss")
            for name, gradient in their_gradients.items():
                assert_same(found[name][member], gradient, tolerance, f"{dtype}, member {member}: gradient of {name}")


@pytest.mark.parametrize("scored", ["all", "last"])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_equals_the_x_transformers_of_the_papers_time(number: int, scored: Scored) -> None:
    with safe_open(PAPER_FILE, "pt") as file:
        shape = json.loads(file.metadata()["shapes"])[number]
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no mapping)
    del shape["vocab_size"], shape["seq_len"]
    spec = Transformer(**shape, **ALL_TRAINED)

    def stored(kind: str) -> dict[str, Tensor]:
        start = f"{number}.{kind}."
        kept = {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}
        return from_x_transformers(kept, spec, gain="weight", gain_offset=0.0)

    batch, expected = tensors[f"{number}.tokens"][None], tensors[f"{number}.logits"]
    for dtype in torch.float32, torch.float64:
        ours = stacked(spec, [{name: weight.to(dtype) for name, weight in stored("weight").items()}])
        logits = ours.logits(batch[:, :, :-1], scored)
        assert_same(logits[0], expected[:, -logits.shape[2] :].to(dtype), 1e-5, "logits")
        if scored == "all":
            found = gradients(ours.parameters, losses(spec, logits, batch).sum())
            for name, gradient in stored("gradient").items():
                assert_same(found[name][0], gradient.to(dtype), 1e-5, f"gradient of {name}")


# every fast path against the plain computation


@st.composite
def transformers(draw: st.DrawFn) -> Transformer:
    small, positions = (
        st.integers(1, 5),
        draw(st.sampled_from(get_args(Transformer.model_fields["positions"].annotation))),
    )
    heads, ffn = draw(st.integers(1, 4)), draw(st.sampled_from(["mlp", "identity", "none"]))
    norms, skips = draw(st.booleans()), draw(st.booleans())
    place = draw(st.sampled_from(["pre", "post"])) if norms else "pre"
    attention = "softmax" if positions == "alibi" else draw(st.sampled_from(get_args(Kind)))
    softmaxes = attention == "softmax"
    values, experts = not softmaxes or draw(st.booleans()), draw(st.integers(1, 3)) if ffn == "mlp" else 1
    return Transformer(
        n_layers=draw(st.integers(1, 3)),
        n_heads=heads,
        n_kv_heads=draw(st.none() | st.sampled_from([some for some in (1, 2, 3, 4) if heads % some == 0])),
        attention=attention,
        values=values,
        window=draw(st.none() | small) if softmaxes else None,
        stride=draw(st.none() | small) if softmaxes else None,
        d_model=draw(st.integers(3, 6)),
        d_head=draw(st.sampled_from([2, 4]) if positions == "rotary" else small),
        d_value=draw(st.none() | small) if values else None,
        ffn=ffn,
        gated=ffn == "mlp" and draw(st.booleans()),
        n_experts=experts,
        top_k=draw(st.integers(1, experts)),
        norm=draw(st.sampled_from(["layer", "rms"])),
        norm_place=place,
        activation=draw(st.sampled_from(["gelu", "relu", "silu", "softmax", "rrelu"])),
        embeddings=draw(st.sampled_from(["frozen", "trained"])),
        positions=positions,
        readout=draw(st.sampled_from(["frozen", "trained", "tied"])),
        norms=norms,
        skips=skips,
        parallel=place == "pre" and skips and ffn != "none" and draw(st.booleans()),
    )


@settings(derandomize=True, max_examples=40, deadline=None)
@given(
    spec=transformers(), vocab_size=st.integers(2, 6), context=st.integers(1, 6), sequences=st.integers(1, 5), seed=...
)
@example(spec=Transformer(d_model=3, d_head=1), vocab_size=2, context=1, sequences=1, seed=0)
@example(spec=Transformer(d_model=5, d_head=9, **ALL_TRAINED), vocab_size=4, context=6, sequences=5, seed=1)
@example(spec=Transformer(d_model=6, d_head=2, n_layers=3, **ALL_TRAINED), vocab_size=3, context=2, sequences=4, seed=2)
@example(spec=Transformer(d_model=5, d_head=9, **TIED), vocab_size=4, context=6, sequences=5, seed=3)
@example(spec=Transformer(d_model=4, d_head=2, n_layers=2, **TIED), vocab_size=3, context=4, sequences=4, seed=4)
def test_every_path_equals_the_plain_computation(
    spec: Transformer, vocab_size: int, context: int, sequences: int, seed: int
) -> None:
    seed = seed % 2**31
    ensemble = randomized(spec, vocab_size=vocab_size, context=context, members=2, seed=seed)
    batch = random_tokens(2, sequences, context + 1, vocab_size, seed)
    plain = members_of(ensemble)
    everywhere = [plain_logits(spec, member, tokens) for member, tokens in zip(plain, batch[:, :, :-1], strict=True)]
    for name, path in paths_of(spec).items():
        logits = logits_by(path, ensemble, batch[:, :, :-1])
        loss = losses(spec, logits, batch)
        found = gradients(ensemble.parameters, loss.sum())
        positions = logits.shape[2]
        assert positions == (1 if path.scored == "last" else context)
        for member in range(2):
            expected = everywhere[member][:, -positions:]
            expected_loss = plain_loss(expected, batch[member, :, -positions:])
            expected_gradients = gradients(plain[member], expected_loss)
            assert_same(logits[member], expected, 1e-10, f"{name}: logits")
            assert_same(loss[member], expected_loss, 1e-10, f"{name}: loss")
            assert found.keys() == expected_gradients.keys()
            for tensor, gradient in expected_gradients.items():
                assert_same(found[tensor][member], gradient, 1e-10, f"{name}: gradient of {tensor}")


@pytest.mark.parametrize("scored", ["all", "last"])
def test_the_number_of_sequences_changes_the_path_but_not_the_result(
    scored: Scored, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(softmax, "LOOK_UP", 1)
    ensemble = randomized(Transformer(n_heads=2, d_model=16), vocab_size=50, context=12, members=2, seed=0)
    tokens = random_tokens(2, 64, 12, 50, seed=0)
    few, many = (ensemble.shared(scored, number) for number in (1, 64))
    assert few.keys() != many.keys()
    assert_same(ensemble.logits(tokens, scored, few), ensemble.logits(tokens, scored, many), 1e-10, "logits")
    assert torch.equal(ensemble.logits(tokens, scored), ensemble.logits(tokens, scored, many))


@settings(derandomize=True, max_examples=50, deadline=None)
@given(sizes=st.tuples(*[st.integers(1, 9)] * 4), shared_rows=st.booleans())
@example(sizes=(1, 9, 1, 9), shared_rows=True)  # first the row
@example(sizes=(9, 2, 9, 2), shared_rows=True)  # first the two matrices
def test_chain_is_the_product_in_either_order(sizes: tuple[int, int, int, int], shared_rows: bool) -> None:
    rows, i, j, k = sizes
    generator = torch.Generator().manual_seed(0)
    x, first, second = (
        torch.randn(shape, generator=generator, dtype=torch.float64)
        for shape in ((2, 1 if shared_rows else 3, rows, i), (2, 3, i, j), (2, 3, j, k))
    )
    expected = torch.einsum("ehri,ehij,ehjk->ehrk", x.expand(2, 3, rows, i), first, second)
    assert_same(softmax.chain(x, first, second), expected, 1e-12, "product")


# micro-batches


def learner_of(spec: Transformer, task: Sequences, sizes: tuple[int, ...], batch_size: int) -> Learner:
    ensemble = randomized(spec, vocab_size=task.vocab_size, context=task.seq_len - 1, members=len(sizes), seed=3)
    generator = torch.Generator().manual_seed(5)
    tokens = torch.randint(task.vocab_size, (len(sizes), max(sizes), task.seq_len), generator=generator)
    generators = [torch.Generator().manual_seed(member) for member in range(len(sizes))]
    order = BatchOrder(sizes, batch_size, generators, "cpu", torch.float64)
    training = Training(precision="float64", batch_size=batch_size, lr=1e-2)
    floats = {purpose: spec.floats_per_row(task.sizes(), task.scored(purpose)) for purpose in ("loss", "recall")}
    return Learner(ensemble, SequenceLibrary(task, tokens, sizes), training, order, floats)


def trained(learner: Learner, steps: int) -> dict[str, Tensor]:
    """Losses, gradients and parameters of every step."""
    seen: dict[str, Tensor] = {}
    for step in range(steps):

        def update(*arguments: Any, step: int = step, update: Any = learner._optimizer.step) -> None:
            for name, p in learner.ensemble.trainable.items():
                seen[f"step {step}: gradient of {name}"] = torch.zeros_like(p) if p.grad is None else p.grad.clone()
            update(*arguments)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(learner._optimizer, "step", update)
            seen[f"step {step}: losses"], _ = learner.step()
        seen.update({f"step {step}: {name}": p.detach().clone() for name, p in learner.ensemble.parameters.items()})
    return seen


@pytest.mark.parametrize(
    ("fields", "loss", "vocab_size", "sign"),
    [
        ({}, "all", 5, "asked"),
        ({}, "all", 60, None),
        ({"d_head": 2}, "all", 5, None),
        ({}, "last", 5, "token_part"),
        ({}, "last", 5000, None),
        ({"n_layers": 2, **ALL_TRAINED}, "last", 5, "asked"),
        ({"positions": "frozen"}, "all", 5, "asked"),
        ({"positions": "frozen"}, "all", 60, None),  # nothing that is shared needs a gradient
        ({"positions": "frozen"}, "last", 5, "token_part"),
        ({"norms": False, "embeddings": "trained"}, "last", 5, "token_part"),
        (TIED, "all", 5, "asked"),
        (TIED, "last", 5, "token_part"),
    ],
)
def test_micro_batches_change_nothing(
    fields: dict[str, Any], loss: Scored, vocab_size: int, sign: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(softmax, "LOOK_UP", 1)
    spec = Transformer(**{"n_heads": 2, "d_model": 6, "d_head": 4, **fields})
    task = Sequences(seq_len=5, vocab_size=vocab_size, library_size=30, loss=loss)
    pieces: list[int] = []
    batch = SequenceLibrary.batch

    def counted(library: SequenceLibrary, rows: Tensor) -> Tensor:
        pieces[-1] += 1
        return batch(library, rows)

    monkeypatch.setattr(SequenceLibrary, "batch", counted)
    results = []
    for sequences in 13, 5, 1:
        floats = sequences * spec.floats_per_row(task.sizes(), task.scored("loss"))
        monkeypatch.setattr(training_ensemble, "CACHE_FLOATS", floats)
        pieces.append(0)
        learner = learner_of(spec, task, sizes=(30, 21), batch_size=13)
        assert {"asked", "token_part"} & learner.ensemble.shared(loss, 13).keys() == ({sign} if sign else set())
        results.append(trained(learner, steps=4))
    assert pieces == [4 * 1, 4 * 3, 4 * 13]
    whole, some, single = results
    for name, expected in whole.items():
        assert_same(some[name], expected, 1e-10, f"pieces of five sequences, {name}")
        assert_same(single[name], expected, 1e-10, f"pieces of one sequence, {name}")


def test_a_step_is_adams_on_the_plain_loss_of_each_member() -> None:
    spec = Transformer(n_heads=2, d_model=6, d_head=4)
    task = Sequences(seq_len=5, vocab_size=5, library_size=10, loss="all")
    learner = learner_of(spec, task, sizes=(10, 7), batch_size=16)  # whole libraries, the second one padded
    plain = members_of(learner.ensemble)
    adams = [torch.optim.Adam([p for p in member.values() if p.requires_grad], lr=1e-2) for member in plain]
    for _ in range(3):
        measured, ended = learner.step()
        assert ended == [0, 1]
        for member, adam in enumerate(adams):
            items = learner.library.tokens[member, : learner.library.sizes[member]]
            expected = plain_loss(plain_logits(spec, plain[member], items[:, :-1]), items[:, 1:])
            assert_same(measured[member], expected, 1e-10, "loss")
            adam.zero_grad()
            expected.backward()
            adam.step()
    for name, parameter in learner.ensemble.parameters.items():
        for member in range(2):
            assert_same(parameter[member], plain[member][name], 1e-9, name)


# members and positions keep to themselves


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
@pytest.mark.parametrize("change", ["tokens", "weights", "diverged"])
def test_a_member_changes_no_other(path: Path, change: str) -> None:
    n_layers = 2 if path in LAST_OF_SEVERAL.values() and path not in LAST_OF_ONE.values() else 1
    spec = Transformer(n_layers=n_layers, n_heads=2, d_model=8, d_head=4, **ALL_TRAINED)
    results = []
    for changed in False, True:
        ensemble = randomized(spec, vocab_size=5, context=6, members=3, seed=0, dtype=torch.float32)
        batch = random_tokens(3, 4, 7, 5, seed=0)
        if changed and change == "tokens":
            batch[1] = (batch[1] + 1) % 5
        elif changed:
            for parameter in ensemble.parameters.values():
                parameter.data[1] = math.nan if change == "diverged" else parameter.data[1] * 1.5
        logits = logits_by(path, ensemble, batch[:, :, :-1])
        found = gradients(ensemble.parameters, losses(spec, logits, batch).sum())
        results.append({"logits": logits, **found})
    before, after = results
    for name, tensor in before.items():
        assert torch.equal(tensor[[0, 2]], after[name][[0, 2]]), name
    assert not torch.equal(before["logits"][1], after["logits"][1])


# parameter counts


def counts(spec: Transformer, vocab_size: int, context: int) -> dict[str, int]:
    generators = [torch.Generator().manual_seed(member) for member in range(2)]
    return TransformerEnsemble.initialize(
        spec, {"vocab_size": vocab_size, "context": context}, generators=generators
    ).parameter_counts()


@pytest.mark.parametrize(
    ("n_heads", "d_model", "trainable"),
    [
        (1, 16, 6_272),
        (2, 16, 10_368),
        (1, 32, 16_640),
        (1, 64, 49_664),
        (1, 128, 164_864),
        (1, 256, 591_872),
        (1, 512, 2_232_320),
        (4, 512, 2_625_536),
        (1, 1024, 8_658_944),
    ],
)
def test_trainable_parameters_of_the_papers_network(n_heads: int, d_model: int, trainable: int) -> None:
    spec = Transformer(n_heads=n_heads, d_model=d_model, positions="frozen")
    assert counts(spec, vocab_size=2, context=1)["trainable"] == trainable


@settings(derandomize=True, max_examples=40, deadline=None)
@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 12), st.integers(2, 20), st.integers(2, 9))
def test_counts_are_the_closed_form(n_layers: int, n_heads: int, d_model: int, vocab_size: int, seq_len: int) -> None:
    n, b = seq_len - 1, d_model
    closed = n_layers * (8 * b**2 + 256 * n_heads * b + 7 * b) + b
    total = 2 * vocab_size * b + n * b + closed
    spec = Transformer(n_layers=n_layers, n_heads=n_heads, d_model=d_model)
    assert counts(spec, vocab_size, n) == {"trainable": closed + n * b, "total": total}
    assert counts(spec.replace(positions="frozen"), vocab_size, n) == {"trainable": closed, "total": total}
    assert counts(spec.replace(**ALL_TRAINED), vocab_size, n) == {"trainable": total, "total": total}


@settings(derandomize=True, max_examples=60, deadline=None)
@given(spec=transformers(), vocab_size=st.integers(2, 9), context=st.integers(1, 6))
def test_counts_of_any_fields(spec: Transformer, vocab_size: int, context: int) -> None:
    b, h, d, g = spec.d_model, spec.n_heads, spec.d_head, spec.n_kv_heads or spec.n_heads
    v = d if spec.d_value is None else spec.d_value
    heads = (h + g) * b * (d + (v if spec.values else 0))
    gates = {"softmax": 0, "linear": 0, "delta": b * g, "gated-delta": 2 * b * g + 2 * g}[spec.attention]
    mlp = spec.n_experts * (8 * b**2 + 5 * b + (4 * b**2 + 4 * b if spec.gated else 0)) if spec.ffn == "mlp" else 0
    router = b * spec.n_experts if spec.n_experts > 1 else 0
    heads, mlp = heads + gates, mlp + router
    norms = b * ((spec.ffn != "none") + 1) if spec.norms else 0
    final = b if spec.norms and spec.norm_place == "pre" else 0
    tables = {"embeddings": vocab_size * b}
    if spec.positions in ("trained", "frozen", "sinusoidal"):
        tables["positions"] = context * b
    if spec.readout != "tied":
        tables["readout"] = vocab_size * b
    network = spec.n_layers * (heads + mlp + norms) + final
    assert counts(spec, vocab_size, context) == {
        "trainable": network + sum(size for name, size in tables.items() if getattr(spec, name) == "trained"),
        "total": network + sum(tables.values()),
    }


@pytest.mark.parametrize(("n_layers", "n_heads", "d_model"), [(1, 1, 16), (2, 3, 24)])
def test_as_many_parameters_as_x_transformers(n_layers: int, n_heads: int, d_model: int) -> None:
    spec = Transformer(n_layers=n_layers, n_heads=n_heads, d_model=d_model)
    theirs = x_transformers(spec, 20, 7, torch.float32)
    assert counts(spec, 20, 7)["total"] == sum(p.numel() for p in theirs.parameters())


# initial weights


def initial(spec: Transformer, seeds: list[int], **sizes: int) -> dict[str, Tensor]:
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    ensemble = TransformerEnsemble.initialize(spec, {"vocab_size": 500, "context": 300} | sizes, generators=generators)
    return {name: p.detach() for name, p in ensemble.parameters.items()}


def test_initial_distributions() -> None:
    b, h, d, v = 48, 3, 40, 24
    drawn = initial(Transformer(n_heads=h, d_model=b, d_head=d, d_value=v), seeds=[0, 1])
    bounds = {"query": b, "key": b, "value": b, "out": h * v, "up": b, "up_bias": b, "down": 4 * b, "down_bias": 4 * b}
    expected: dict[str, Any] = {
        "token": stats.norm(0, math.sqrt(2 / b)),
        "position": stats.norm(0, 1),
        "readout": stats.uniform(-1 / math.sqrt(b), 2 / math.sqrt(b)),
        **{
            f"layers.0.{name}": stats.uniform(-1 / math.sqrt(fan_in), 2 / math.sqrt(fan_in))
            for name, fan_in in bounds.items()
        },
    }
    for name, distribution in expected.items():
        numbers = drawn[name].double().flatten().numpy()
        assert stats.kstest(numbers, distribution.cdf).pvalue > 1e-3, name
        spread = distribution.std() * math.sqrt(distribution.stats("k") + 2) / 2 / math.sqrt(len(numbers))
        assert abs(numbers.std() - distribution.std()) < 4 * spread, name
        assert abs(numbers.mean()) < 4 * distribution.std() / math.sqrt(len(numbers)), name
        low, high = distribution.support()
        assert low * 1.000001 <= numbers.min(), name
        assert numbers.max() <= high * 1.000001, name
    gains = {name for name in drawn if name.endswith("norm")}
    assert gains == {"layers.0.norm", "layers.0.ffn_norm", "final_norm"}
    assert all((drawn[name] == 1).all() for name in gains)
    assert drawn.keys() == expected.keys() | gains


def test_initial_distributions_are_those_of_x_transformers() -> None:
    spec = Transformer(n_layers=2, n_heads=2, d_model=32)
    ours = initial(spec, seeds=[0], vocab_size=200, context=100)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        decoder = Decoder(dim=32, depth=2, heads=2)
        theirs = TransformerWrapper(num_tokens=200, max_seq_len=100, attn_layers=decoder).state_dict()
    for name, tensor in from_x_transformers(theirs, spec, gain="gamma", gain_offset=1.0).items():
        assert stats.ks_2samp(ours[name].flatten(), tensor.flatten()).pvalue > 1e-3, name
        assert ours[name][0].shape == tensor.shape, name


def test_precision_rounds_the_same_draw() -> None:
    spec = Transformer(d_model=8, d_head=4)
    single, double = (
        TransformerEnsemble.initialize(
            spec, {"vocab_size": 9, "context": 5}, generators=[torch.Generator().manual_seed(1)], dtype=dtype
        ).parameters
        for dtype in (torch.float32, torch.float64)
    )
    assert all(torch.equal(single[name].double(), tensor) for name, tensor in double.items())
