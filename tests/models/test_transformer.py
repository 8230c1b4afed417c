"""The ensemble against x-transformers, against a plain computation, and against itself with another member changed."""

from __future__ import annotations

import json
import math
import pathlib

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
from torch import Tensor
from transformer_paths import (
    ALL_TRAINED,
    LAST_OF_ONE,
    LAST_OF_SEVERAL,
    PATHS,
    TIED,
    Path,
    gradients,
    logits_by,
    losses,
    paths_of,
    transformers,
    x_transformers,
)

from capax.models.mixers import softmax
from capax.models.transformer import Scored
from capax.specs import Transformer

PAPER_FILE = pathlib.Path(__file__).parent / "data" / "x_transformers_1_30_1.safetensors"


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


@pytest.mark.slow
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
