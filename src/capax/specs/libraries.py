"""Models that a library builds from options of its own: no code of the user's, and none that is not installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, Field, JsonValue, ValidationInfo, model_validator

from capax.errors import SpecError, shown
from capax.specs.model import Parameter
from capax.specs.modules import TorchModel
from capax.specs.plugins import resolve
from capax.specs.protocols import Protocol
from capax.specs.spec import filled_in, must_be_given
from capax.text import Over


def _refuse_words(options: dict[str, JsonValue], info: ValidationInfo) -> dict[str, JsonValue]:
    """Refuse words in place of true or false: the library would take any word for true."""
    for name, value in options.items():
        if isinstance(value, str) and value.lower() in ("true", "false", "yes", "no", "on", "off"):
            raise ValueError(f"{info.field_name}: {name} should be true or false, got the word {shown(value)}")
    return options


Options = Annotated[
    dict[str, JsonValue],
    AfterValidator(_refuse_words),
    Field(
        default_factory=dict,
        description="Options by the library's own names: name=value, more than once; a value is JSON, else text.",
        json_schema_extra={"pairs": True},
    ),
]

DEEPEST = 1000
"""Layers of a model that a library builds: each is made of Python objects."""


class LibraryModel(TorchModel):
    """A model that an installed library builds.

    Its first values are the library's, seeded. The library's version is part of what a run is: another version may
    build another network, so a model is built by the version that it was asked of, and by no other.

    Attributes:
        package: the library's distribution; the extra of capax that installs it is `extra`.
        home: the module of capax that knows it, with `check` of a new spec, which may fill in fields, `make` of a
            module, and `outline` of one whose first values do not matter.
    """

    package: ClassVar[str]
    extra: ClassVar[str]
    home: ClassVar[str]

    package_version: Annotated[
        str | None, filled_in("Version of the library: filled in when a spec is made, checked when it is built.")
    ] = None

    @model_validator(mode="after")
    def _of_this_library(self) -> Self:
        if self.package_version is None:
            must_be_given("package_version")
            object.__setattr__(self, "package_version", self.installed())
            resolve(f"{self.home}:check")(self)
            self.model_fields_set.discard("package_version")  # a copy with changes is of the library that is there
        return self

    @classmethod
    def installed(cls) -> str:
        """The version of the library that is there.

        Raises:
            SpecError: when there is none.
        """
        try:
            return version(cls.package)
        except PackageNotFoundError:
            raise SpecError(f"model: needs {cls.package}: pip install 'capax[{cls.extra}]'") from None

    @property
    def library(self) -> str:
        """The library and its version."""
        return f"{self.package} {self.package_version}"

    def words(self, protocol: Protocol | None = None) -> str:
        """The library, its version, and what it is told."""
        return f"{self.name} by {self.library}"

    def described(self, over: Over, protocols: Sequence[Protocol]) -> str:
        """The library and what it is told, for several such models."""
        several = len({*over.values("name")})
        return self.words(protocols[0]) + (f" and {several - 1} more" if several > 1 else "")

    def parameters(self, **sizes: int) -> tuple[Parameter, ...]:
        """Its tensors, buffers too, as one is built without memory; the library draws their first values."""
        return self._skeleton(**sizes).table

    def parameter_counts(self, **sizes: int) -> dict[str, int]:
        """Numbers that one member has, buffers not counted: `trainable` and `total`."""
        return dict(self._skeleton(**sizes).counts)

    def torch_module(self, sizes: Mapping[str, int], seed: int) -> Any:
        """One that the library builds.

        Raises:
            SpecError: when another version is installed than the spec's.
            ModuleError: when the library refuses.
        """
        return resolve("capax.models.libraries:build")(self, sizes["vocab_size"], sizes["context"], seed)

    def _skeleton(self, *, vocab_size: int, context: int) -> Any:
        return resolve("capax.models.libraries:skeleton")(self, vocab_size, context)


def said(given: Mapping[str, Any]) -> list[str]:
    """Options in words, those that are merely on by their names."""
    return [name if value is True else f"{name} {value}" for name, value in given.items()]
