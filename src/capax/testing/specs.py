"""What every task and every model does because it is a spec."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from capax.errors import SpecError
from capax.specs import Run
from capax.specs.spec import Tagged, is_filled_in, later_fields


class SpecSuite:
    """Tests that tasks and models share; `spec` is the one under test, `run` a run of it."""

    @property
    def spec(self) -> Tagged:
        """The task or model."""
        raise NotImplementedError

    @property
    def run(self) -> Run:
        """A run of it."""
        raise NotImplementedError

    def test_it_is_registered_under_its_tag(self) -> None:
        kind = type(self.spec)
        tag = kind.tag()
        assert tag is not None
        assert kind.registry.find(tag) is kind

    def test_a_subclass_with_its_tag_is_refused(self) -> None:
        kind: Any = type(self.spec)
        borrowed = type("Borrowed", (kind,), {"__module__": "elsewhere"})
        with pytest.raises(SpecError, match="Borrowed"):
            borrowed(**{name: getattr(self.spec, name) for name in self.spec.model_fields_set})

    def test_it_is_pickled(self) -> None:
        assert pickle.loads(pickle.dumps(self.spec)) == self.spec
        assert pickle.loads(pickle.dumps(self.run)) == self.run

    def test_it_goes_through_json(self) -> None:
        again = Run.model_validate_json(self.run.model_dump_json())
        assert again == self.run
        assert again.key() == self.run.key()
        assert type(again.task) is type(self.run.task)
        assert type(again.model) is type(self.run.model)

    def test_it_is_hashed(self) -> None:
        assert hash(self.spec) == hash(self.spec.replace())

    def test_later_fields_change_no_key(self) -> None:
        """A field that is `since` a later version is no part of a key at its default, and one at any other value."""
        fields = type(self.spec).model_fields
        for name in later_fields(type(self.spec)):
            if is_filled_in(fields[name]):
                continue  # it follows another
            default = fields[name].default
            assert name not in self.spec.replace(**{name: default}).canonical()

    def test_it_has_words_and_columns(self) -> None:
        spec: Any = self.spec
        assert spec.words()
        columns = spec.columns()
        assert json.loads(json.dumps(columns)) == columns
