"""A model that the user brings: a factory of `torch.nn.Module`s that map tokens to next-token scores."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, JsonValue, model_validator

from capax.errors import SpecError
from capax.specs.model import Model, Scored
from capax.specs.plugins import resolve
from capax.specs.protocols import Protocol
from capax.specs.spec import must_be_given
from capax.specs.training import Training
from capax.text import Over


class Module(Model):
    """A user's `torch.nn.Module` that maps tokens `(batch, n)` to scores `(batch, n, vocab_size)`.

    The factory is a function or a class, called for every member with those of `vocab_size`, `seq_len` (that of the
    task, its target included) and `context_size` (seq_len − 1, the tokens that the module reads) that its signature
    names, and with `arguments`, which come first. Scores `(batch, vocab_size)` are those of the last position.
    """

    exact: ClassVar[bool] = False
    ensemble_class: ClassVar[str] = "capax.models.module_traits:TriedModules"

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
            object.__setattr__(self, "source_sha256", resolve("capax.models.factory:source_hash")(self.factory))
            self.model_fields_set.discard("source_sha256")  # a copy with changes reads the file again
        return self

    def __hash__(self) -> int:
        return hash(self.model_dump_json())

    @property
    def name(self) -> str:
        """The factory and its arguments, as they would be called."""
        given = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"{self.factory}({given})"

    def words(self, protocol: Protocol | None = None) -> str:
        """The factory and its arguments, as they would be called."""
        return self.name

    def described(self, over: Over, protocols: Sequence[Protocol]) -> str:
        """The user's factory and its arguments, and of which file."""
        return f"the user's module {self.name} (sha256 {self.source_sha256:.8}…)"

    def parameter_counts(self, **sizes: int) -> dict[str, int]:
        """Not known beforehand.

        Raises:
            SpecError: always.
        """
        raise SpecError(f"model: the size of a user's module is not known beforehand, got {self.name}")

    def built_counts(self, **sizes: int) -> dict[str, int]:
        """Of one module that is built for it.

        Raises:
            SpecError: when the factory is not there any more, or has changed.
            ModuleError: when it fails.
        """
        numbers = [(one.numel(), one.requires_grad) for one in self._built(0, **sizes).parameters()]
        return {
            "trainable": sum(count for count, trained in numbers if trained),
            "total": sum(count for count, _ in numbers),
        }

    def effective_parameters(self, **sizes: int) -> int:
        """All of its trained numbers: what its products are is not known."""
        return self.built_counts(**sizes)["trainable"]

    def torch_module(self, sizes: Mapping[str, int], seed: int) -> Any:
        """One that the factory makes, with a seed of its random numbers."""
        return self._built(seed, **sizes)

    def _built(self, seed: int, *, vocab_size: int, context: int) -> Any:
        return resolve("capax.models.factory:build")(self, vocab_size=vocab_size, seq_len=context + 1, seed=seed)

    def floats_per_row(self, sizes: Mapping[str, int], scored: Scored) -> int:
        """Numbers in the widest activation of one sequence, found out by asking a module."""
        found = resolve("capax.models.module_traits:traits")(self, sizes["vocab_size"], sizes["context"] + 1)
        return int(found.floats_per_row)

    @property
    def runs_code(self) -> str:
        """The factory."""
        return self.factory

    def columns(self) -> dict[str, Any]:
        """Its fields, and numeric arguments as columns of their own."""
        fields = super().columns()
        numbers = {
            name: value
            for name, value in self.arguments.items()
            if isinstance(value, int | float) and not isinstance(value, bool)
        }
        return numbers | fields

    def refuse(self, training: Training, protocol: Protocol) -> None:
        """Refuse to compile a user's module."""
        if training.compile:
            raise ValueError("compile: not for a user's module, got True")
