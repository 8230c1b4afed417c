"""A sequence read a token at a time, a rest generated, a head taken away: each against the plain computation."""

import pytest
import torch
from reference import Member, assert_same, members_of, plain_logits, random_tokens, randomized
from torch import Tensor

from capax.probes.ablation import without_head
from capax.probes.cue import wrong_tokens
from capax.specs import Transformer

SPECS = {
    "one head": Transformer(d_model=6, d_head=3),
    "two layers": Transformer(n_layers=2, n_heads=3, d_model=6, d_head=5, d_value=2),
    "rotary": Transformer(
        n_layers=2, n_heads=2, n_kv_heads=1, d_model=6, d_head=4, positions="rotary", norm="rms", gated=True
    ),
    "slopes and a window": Transformer(n_layers=2, n_heads=2, d_model=6, d_head=3, positions="alibi", window=3),
    "a state, norms after": Transformer(
        n_layers=2, n_heads=2, d_model=6, d_head=3, attention="gated-delta", norm_place="post"
    ),
    "strides, experts in parallel": Transformer(
        n_layers=2, n_heads=2, d_model=6, d_head=3, stride=2, n_experts=2, parallel=True
    ),
    "no norms": Transformer(n_layers=2, n_heads=2, d_model=6, d_head=2, norms=False, ffn="none"),
    "no skips": Transformer(n_layers=2, n_heads=2, d_model=6, d_head=2, skips=False, ffn="identity"),
}


@pytest.fixture(params=SPECS.values(), ids=SPECS)
def spec(request: pytest.FixtureRequest) -> Transformer:
    return request.param


def test_a_token_at_a_time_is_the_same_as_all_at_once(spec: Transformer) -> None:
    ensemble = randomized(spec, vocab_size=7, context=5, members=2, seed=3)
    tokens = random_tokens(2, 4, 5, 7, seed=1)
    before = torch.empty(spec.n_layers, 2, 4, 0, spec.d_model, dtype=torch.float64)
    with torch.no_grad():
        for place in range(5):
            scores, before = ensemble.continued(tokens[:, :, place], before)
            for number, member in enumerate(members_of(ensemble)):
                expected = plain_logits(spec, member, tokens[number])[:, place]
                assert_same(scores[number], expected, 1e-10, f"position {place}")
            # and what comes later has no influence on what the whole model says here
            later = torch.cat([tokens[:, :, : place + 1], random_tokens(2, 4, 4 - place, 7, seed=2)], 2)
            assert_same(ensemble.logits(later)[:, :, place], scores, 1e-10, f"position {place}")


def generated(spec: Transformer, member: Member, item: Tensor, cue: int) -> list[int]:
    """A rest as one would write it down: the whole model asked for each token, over a prefix that grows."""
    tokens = item[:cue].tolist()
    while len(tokens) < len(item):
        padded = torch.tensor([tokens + [0] * (len(item) - 1 - len(tokens))])
        tokens.append(int(plain_logits(spec, member, padded)[0, len(tokens) - 1].argmax()))
    return tokens[cue:]


@pytest.mark.slow
def test_wrong_tokens_of_rests_generated_one_by_one(spec: Transformer) -> None:
    ensemble = randomized(spec, vocab_size=3, context=4, members=1, seed=5)
    (member,) = members_of(ensemble)
    items = random_tokens(1, 12, 5, 3, seed=4)[0]
    for item in items[6:]:  # half of the items are what the model itself says after their first two tokens
        item[2:] = torch.tensor(generated(spec, member, item, 2))
    expected = [
        [sum(a != b for a, b in zip(generated(spec, member, item, cue), item[cue:].tolist(), strict=True))
         for cue in range(1, 5)]
        for item in items
    ]  # fmt: skip
    found = wrong_tokens(ensemble, items)
    assert found.tolist() == expected
    assert not found[6:, 1:].any()
    assert found[:6].any()


def test_a_head_taken_away_is_a_model_without_it() -> None:
    spec = SPECS["two layers"].replace(n_layers=1)
    ensemble = randomized(spec, vocab_size=7, context=5, members=1, seed=3)
    (member,) = members_of(ensemble)
    tokens = random_tokens(1, 4, 5, 7, seed=1)
    for head in range(3):
        others = [other for other in range(3) if other != head]
        fewer = {
            name: p[others] if name.split(".")[-1] in ("query", "key", "value", "out") else p
            for name, p in member.items()
        }
        expected = plain_logits(spec.replace(n_heads=2), fewer, tokens[0])
        with torch.no_grad():
            assert_same(without_head(ensemble, 0, head).logits(tokens)[0], expected, 1e-10, f"head {head}")
    assert torch.equal(ensemble.parameters["layers.0.out"][0], member["layers.0.out"])
