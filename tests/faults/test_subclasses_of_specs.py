"""A subclass of a spec is never trained, and stored, as the spec that it is made from."""

from __future__ import annotations

from typing import Any, Literal

import pytest

import capax
from capax.errors import SpecError
from capax.specs import Spec


@pytest.mark.parametrize(
    "base",
    [
        *(capax.Sequences, capax.Associations, capax.Relations, capax.Transformer, capax.AssociativeAttention),
        *(capax.KeyQueryChannel, capax.Module, capax.Training, capax.Mac, capax.Mls, capax.Shatter, capax.Budget),
        capax.Run,
    ],
)
def test_a_subclass_of_a_spec_is_refused(base: type[Spec]) -> None:
    class Other(base):  # type: ignore[misc, valid-type]
        n_kv_heads: int = 1

    with pytest.raises(SpecError, match=f"^Other: .* of {base.__name__}"):
        Other(n_kv_heads=2)


def test_a_subclass_that_names_itself_is_refused_too() -> None:
    class GQA(capax.Transformer):
        model: Any = "gqa"

    for made in (GQA, lambda: GQA.model_validate({}), lambda: GQA.model_validate_json("{}")):
        with pytest.raises(SpecError, match=r"^GQA: has no tag.*Literal\[\"gqa\"\]"):
            made()


def test_a_subclass_does_not_take_the_tag_of_its_base() -> None:
    with pytest.raises(SpecError, match=r"^model: tag 'transformer' of .*Two is that of capax\.specs\.transformer"):

        class Two(capax.Transformer):
            model: Literal["transformer"] = "transformer"

    assert capax.Model.registry["transformer"] is capax.Transformer


def test_a_subclass_of_a_spec_that_was_made_without_checks_is_refused_where_it_is_used() -> None:
    class Other(capax.Transformer):
        pass

    class Others(capax.Sequences):
        pass

    odd = (Others.model_construct(seq_len=4), Other.model_construct(n_heads=1, d_model=8))
    task, model = (capax.Sequences(library_size=9), capax.Transformer())
    run = capax.Run(task=task, model=model)
    for asks in (
        lambda: capax.bounds(odd[1], seq_len=4),
        lambda: capax.bounds(run.model_copy(update={"task": odd[0]})),
        lambda: capax.bounds(run.model_copy(update={"model": odd[1]})),
        lambda: capax.measure(odd[0], model),
        lambda: capax.measure(task, odd[1]),
    ):
        with pytest.raises(SpecError, match=r"^Others?: has the tag .* registers it"):
            asks()
