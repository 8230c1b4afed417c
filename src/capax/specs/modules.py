"""Models whose members are `torch.nn.Module`s: what they have in common, and those that a user's factory makes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, JsonValue, model_validator

from capax.errors import SpecError
from capax.specs.model import Model, Scored
from capax.specs.plugins import resolve
from capax.specs.protocols import Protocol
from capax.specs.spec import filled_in, must_be_given
from capax.specs.training import Training
from capax.text import Over


class TorchModel(Model):
    """A model whose members are `torch.nn.Module`s that map what it reads (tokens, if it says nothing else) to scores.

    What its modules are is found out by asking a few; members are computed together where `torch.vmap` can.
    `torch_module` makes one.
    """

    exact: ClassVar[bool] = False
    ensemble_class: ClassVar[str] = "capax.models.module_traits:TriedModules"

    def __hash__(self) -> int:
        return hash(self.model_dump_json())

    @property
    def name(self) -> str:
        """What is made and of what, as it would be called."""
        raise NotImplementedError(f"{type(self).__name__}.name")

    @property
    def short_name(self) -> str:
        """What is made."""
        return self.model

    def remarks(self, **sizes: int) -> tuple[str, ...]:
        """What a measurement says of it."""
        return ()

    def effective_parameters(self, **sizes: int) -> int:
        """All of its trained numbers: what its products are is not known."""
        return self.built_counts(**sizes)["trainable"]

    def floats_per_row(self, sizes: Mapping[str, int], scored: Scored) -> int:
        """Numbers in the widest activation of one sequence, found out by asking a module."""
        return int(resolve("capax.models.module_traits:traits")(self, sizes).floats_per_row)

    def given(self) -> dict[str, Any]:
        """What it is made with by other names than its fields."""
        return {} if self.options is None else dict(getattr(self, self.options))

    def columns(self) -> dict[str, Any]:
        """Its fields, and options that are numbers or truth values as columns of their own."""
        fields = {name: value for name, value in super().columns().items() if value is not None}
        return {name: value for name, value in self.given().items() if isinstance(value, int | float)} | fields

    def refuse(self, training: Training, protocol: Protocol) -> None:
        """Refuse to compile it."""
        if training.compile:
            raise ValueError(f"compile: not for {self.short_name}, a torch.nn.Module, got True")


class Module(TorchModel):
    """A user's `torch.nn.Module` that maps tokens `(batch, n)` to scores `(batch, n, vocab_size)`.

    The factory is a function or a class, called for every member with those of `vocab_size`, `seq_len` (that of the
    task, its target included) and `context_size` (seq_len − 1, the tokens that the module reads) that its signature
    names, and with `arguments`, which come first. Scores `(batch, vocab_size)` are those of the last position.
    """

    options: ClassVar[str] = "arguments"

    model: Literal["module"] = "module"
    factory: Annotated[str, Field(description="What makes the module: 'package.module:name', a callable.")]
    arguments: Annotated[
        dict[str, JsonValue],
        Field(default_factory=dict, description="Passed to the factory as keywords: a JSON object."),
    ]
    source_sha256: Annotated[
        str | None,
        filled_in("Content of the file that defines the factory: filled in when read, checked when used."),
    ] = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if not re.fullmatch(r"[\w.]+:\w+", self.factory) or ".py:" in self.factory:
            raise ValueError(
                f"factory: should be 'package.module:name', as in an import (--module), got {self.factory!r:.80}"
            )
        if self.source_sha256 is None:
            must_be_given("source_sha256")
            object.__setattr__(self, "source_sha256", resolve("capax.models.factory:source_hash")(self.factory))
            self.model_fields_set.discard("source_sha256")  # a copy with changes reads the file again
        return self

    @property
    def name(self) -> str:
        """The factory and its arguments, as they would be called."""
        given = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"{self.factory}({given})"

    @property
    def short_name(self) -> str:
        """The factory."""
        return self.factory

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
        numbers = [(one.numel(), one.requires_grad) for one in self.torch_module(sizes, 0).parameters()]
        return {
            "trainable": sum(count for count, trained in numbers if trained),
            "total": sum(count for count, _ in numbers),
        }

    def torch_module(self, sizes: Mapping[str, int], seed: int) -> Any:
        """One that the factory makes, with a seed of its random numbers."""
        return resolve("capax.models.factory:build")(self, self.told(sizes), seed)

    def told(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """What the factory is called with of a task, where its signature names it."""
        context = sizes["context"]
        return {"vocab_size": sizes["vocab_size"], "seq_len": context + 1, "context_size": context}

    @property
    def runs_code(self) -> str:
        """The factory."""
        return self.factory
