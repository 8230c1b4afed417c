"""A model that the user brings: a factory of `torch.nn.Module`s that map tokens to next-token scores."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, model_validator

from capax.specs.spec import Spec, must_be_given


class Module(Spec):
    """A user's `torch.nn.Module` that maps tokens `(batch, n)` to scores `(batch, n, vocab_size)`.

    The factory is a function or a class, called for every member with those of `vocab_size`, `seq_len` (that of the
    task, its target included) and `context_size` (seq_len − 1, the tokens that the module reads) that its signature
    names, and with `arguments`, which come first. Scores `(batch, vocab_size)` are those of the last position.
    """

    model: Literal["module"] = "module"
    factory: Annotated[str, Field(description="What makes the module: 'package.module:name', a callable.")]
    arguments: Annotated[
        dict[str, JsonValue],
        Field(default_factory=dict, description="Passed to the factory as keywords: a JSON object."),
    ]
    source_sha256: Annotated[
        str | None,
        Field(description="Content of the file that defines the factory: filled in when read, checked when used."),
    ] = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if not re.fullmatch(r"[\w.]+:\w+", self.factory):
            raise ValueError(f"factory: should be 'package.module:name', got {self.factory!r:.80}")
        if self.source_sha256 is None:
            must_be_given("source_sha256")
            from capax.models.factory import source_hash

            object.__setattr__(self, "source_sha256", source_hash(self.factory))
            self.model_fields_set.discard("source_sha256")  # a copy with changes reads the file again
        return self

    def __hash__(self) -> int:
        return hash(self.model_dump_json())

    @property
    def name(self) -> str:
        """The factory and its arguments, as they would be called."""
        given = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"{self.factory}({given})"
