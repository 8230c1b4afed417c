"""The base of all models. No other part of capax asks which model it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

from capax.specs.plugins import Registry, resolve
from capax.specs.protocols import Protocol
from capax.specs.spec import Tagged
from capax.specs.training import Training
from capax.text import Over, counted, listed

Scored = Literal["all", "last"]
"""Positions whose next token is predicted: every one, or the last alone."""


class Normal(NamedTuple):
    """First values that are normal, of mean 0."""

    std: float


class Uniform(NamedTuple):
    """First values that are uniform in ±bound, then divided by a number."""

    bound: float
    divided_by: float = 1.0

    @classmethod
    def fan_in(cls, inputs: int) -> Uniform:
        """PyTorch's default for a linear layer of so many inputs."""
        return cls(1 / math.sqrt(inputs))

    @classmethod
    def xavier(cls, inputs: int, outputs: int, divided_by: float = 1.0) -> Uniform:
        """Xavier's (Glorot and Bengio 2010)."""
        return cls(math.sqrt(6 / (inputs + outputs)), divided_by)


class Constant(NamedTuple):
    """First values that are one number."""

    value: float


class Sinusoid(NamedTuple):
    """Sines and cosines, in turn, of a row's number by wavelengths from 2π to 20,000π (Vaswani et al. 2017)."""


class Drawn(NamedTuple):
    """First values that come from the code which builds the model."""


class Parameter(NamedTuple):
    """One tensor of a model.

    Attributes:
        first: its first values; those that are random are drawn in the order of the table.
        trained: whether training changes it.
    """

    name: str
    shape: tuple[int, ...]
    first: Normal | Uniform | Constant | Sinusoid | Drawn
    trained: bool = True


class Model(Tagged):
    """The model that memorizes. A subclass with a tag of its own is a model for every task whose items it reads.

    Attributes:
        reads: what it is given of an item, as `Task.reads` says.
        ensemble_class: its members computed together (`capax.models.ensemble.Ensemble`), as `package.module:Class`.
        axes: fields that capacity may depend on; the last is the one that a plan makes as small as its target allows.
            None stands for all whole numbers.
        steps: what the values of an axis that a plan tries are multiples of.
        rule: how `shaped` chooses, in words.
        depths: what a plan at any size tries of `n_layers`; empty where there is no such plan.
        exact: whether a member is the same to the last bit in any pack of two or more.
        counts_anew: whether the effective parameters of runs are counted again when they are read: they follow from its
            fields, by the rule of now.
        shares_frozen: whether all members have the same numbers in what is not trained, which is then there once, and
            no parameter of an ensemble.
        pretrained: whether its modules have a `network` that `save_pretrained` writes as a checkpoint.
        usual_lr: learning rates by the optimizer, in place of the task's or the protocol's, where nothing else is said.
        planner: a command of `capax plan` of its own, as `package.module:name`; None where it has none.
        pads_heads: whether members of several head sizes may be in one ensemble, the smaller ones padded with zeros.
        options: the field that holds what it is made with by other names than its fields; None where there is none.
    """

    tag_field: ClassVar[str] = "model"
    registry: ClassVar[Registry] = Registry("model")
    reads: ClassVar[str] = "tokens"
    ensemble_class: ClassVar[str]
    axes: ClassVar[tuple[str, ...]] = ()
    steps: ClassVar[Mapping[str, int]] = {}
    rule: ClassVar[str | None] = None
    depths: ClassVar[tuple[int, ...]] = ()
    exact: ClassVar[bool] = True
    counts_anew: ClassVar[bool] = False
    shares_frozen: ClassVar[bool] = False
    pretrained: ClassVar[bool] = False
    usual_lr: ClassVar[Mapping[str, float]] = {}
    planner: ClassVar[str | None] = None
    pads_heads: ClassVar[bool] = False
    options: ClassVar[str | None] = None

    if TYPE_CHECKING:

        @property
        def model(self) -> str:
            """Its tag."""

    def ensemble_type(self) -> Any:
        """The class of its ensembles, imported."""
        return resolve(self.ensemble_class)

    def parameters(self, **sizes: int) -> tuple[Parameter, ...]:
        """Its tensors.

        Args:
            sizes: `Task.sizes` of what it learns.
        """
        raise NotImplementedError(f"{type(self).__name__}.parameters")

    def parameter_counts(self, **sizes: int) -> dict[str, int]:
        """Numbers that one member has: `trainable` and `total`.

        Args:
            sizes: `Task.sizes` of what it learns.

        Raises:
            SpecError: where they are known only once it is built.
        """
        table = self.parameters(**sizes)
        return {
            "trainable": sum(math.prod(one.shape) for one in table if one.trained),
            "total": sum(math.prod(one.shape) for one in table),
        }

    def effective_parameters(self, **sizes: int) -> int:
        """Trained numbers, where products of matrices count by their own freedom; `freedom` says how.

        Args:
            sizes: `Task.sizes` of what it learns.
        """
        return self.parameter_counts(**sizes)["trainable"]

    @property
    def needs_context(self) -> bool:
        """Whether what it says of a pair of items depends on which others are there."""
        return False

    def of_heads(self, n_heads: int, d_head: int) -> Self:
        """The model with so many heads of so many channels, as a search for a key dimension asks for it."""
        raise NotImplementedError(f"{type(self).__name__}.of_heads")

    def simplest(self, **sizes: int) -> Self:
        """The same network in its simplest words, where several fields say one thing.

        Args:
            sizes: `Task.sizes` of what it learns.
        """
        return self

    @property
    def idle_parameters(self) -> int:
        """Numbers of experts that do not answer a token."""
        return 0

    def product_parameters(self, **sizes: int) -> int:
        """Effective parameters, nearly: what libraries are sized by, which must never change, as keys would.

        Args:
            sizes: `Task.sizes` of what it learns.
        """
        return self.effective_parameters(**sizes)

    def table_parameters(self, **sizes: int) -> int:
        """Numbers of its tables of tokens: what it reads them by, and what it scores them by.

        Args:
            sizes: `Task.sizes` of what it learns.
        """
        return 0

    def built_counts(self, **sizes: int) -> dict[str, int]:
        """`parameter_counts`; builds the model where they are not known beforehand."""
        return self.parameter_counts(**sizes)

    def torch_module(self, sizes: Mapping[str, int], seed: int) -> Any:
        """One member as a `torch.nn.Module` of its own; None where its members are parameters of an ensemble only.

        Args:
            sizes: `Task.sizes` of what it learns.
        """
        return None

    def operations(self, sizes: Mapping[str, int], scored: Scored, counts: Mapping[str, int] | None = None) -> int:
        """Operations of showing one item once, forward and backward; six a trained number and position, if not exact.

        Args:
            sizes: `Task.sizes` of what it learns.
            scored: positions that are, where items are tokens.
            counts: its `parameter_counts` where they are known: some models must be built to be counted.
        """
        return 6 * (counts or self.parameter_counts(**sizes))["trainable"] * sizes.get("context", 1)

    @property
    def uncounted(self) -> str | None:
        """Why its parameters cannot be counted yet; None where they can."""
        return None

    def floats_per_row(self, sizes: Mapping[str, int], scored: Scored) -> int:
        """Numbers in the widest activation of one row of one member; micro-batches and packs are sized by it.

        Args:
            sizes: `Task.sizes` of what it learns.
            scored: positions that are, where items are tokens.
        """
        raise NotImplementedError(f"{type(self).__name__}.floats_per_row")

    def architecture(self, **sizes: Any) -> dict[str, Any]:
        """What bounds may know of its layers: its fields, and what follows from them; empty where they know nothing.

        A subclass says it anew: what holds of its parent need not hold of another attention.

        Args:
            sizes: those of its task that are known, as `Task.bound_sizes` says; others are None.
        """
        return {}

    @property
    def frozen_readout(self) -> bool:
        """Whether its scores of tokens are products with rows of a frozen parameter (`TokenEnsemble.readout`)."""
        return False

    def words(self, protocol: Protocol | None = None) -> str:
        """The model in a few words.

        Args:
            protocol: that it is measured by, which may search for one of its sizes.
        """
        given = self.model_dump(exclude={self.tag_field}, exclude_defaults=True)
        return ", ".join([self.model, *(f"{name} {value}" for name, value in given.items())])

    def described(self, over: Over, protocols: Sequence[Protocol]) -> str:
        """The model in a sentence, for several such models.

        Args:
            over: those models, which differ in sizes alone.
            protocols: that they are measured by, which may search for some of their sizes.
        """
        return self.words(protocols[0])

    @property
    def gains(self) -> tuple[str, ...]:
        """The trained parameters that set the temperature of its outputs (`Training.gain_lr`)."""
        return ()

    @property
    def random(self) -> bool:
        """Whether a step of training draws random numbers, as far as that is known of its fields."""
        return False

    @property
    def runs_code(self) -> str | None:
        """Code outside of capax that building it would import; None where there is none."""
        return None

    @classmethod
    def shaped(cls, needed: float, given: Mapping[str, int], **sizes: int) -> dict[str, int]:
        """The rest of its sizes where so much is needed of what they make up, such as a total key dimension.

        Args:
            given: `Task.sizes` of what it learns, and what is asked of it.
            sizes: its own that are known.
        """
        raise NotImplementedError(f"{cls.__name__}.shaped")

    @classmethod
    def completed(cls, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Fields that a plan chose, with those that follow from them; None stands for what is to be filled in."""
        return fields

    def without_folders(self, name: Callable[[str], str]) -> Self:
        """A copy whose files are named without their folders, as for others' eyes.

        Args:
            name: of a file, by its path.
        """
        return self

    def columns(self) -> dict[str, Any]:
        """Its columns in a table: its fields."""
        return self.model_dump(mode="json")

    def refuse(self, training: Training, protocol: Protocol) -> None:
        """Refuse a training or a protocol that it cannot learn by.

        Raises:
            ValueError: that names the field.
        """


def freedom(rows: int, inner: int, columns: int) -> int:
    """Free numbers of a product of a matrix (rows, inner) and one (inner, columns).

    Such a product has rank r = min(rows, inner, columns) at most, and the matrices of that rank are a manifold of
    r (rows + columns − r) dimensions: (rows + columns) · inner numbers say nothing more.
    """
    rank = min(rows, inner, columns)
    return rank * (rows + columns - rank)


def heads(model: Any) -> str:
    """The heads of a model in words."""
    of = "" if model.d_head is None else f" of {model.d_head}"  # it may be what is searched, or left open
    return f"{counted(model.n_heads, 'head')}{of}"


def layout(over: Over, protocols: Sequence[Protocol] = ()) -> str:
    """Heads, their channels, and widths of several models in words; head counts of searches where there are any."""
    searched = {count for one in protocols for count in getattr(one, "head_counts", ())}
    sizes = over.values("d_head")
    each = f" of {counted(sizes, 'channel')}" if sizes else ", their size searched for"
    values = f" (values of {listed(given)})" if (given := over.values("d_value")) else ""
    widths = over.values("d_model")
    width = f"width{'s' * (len(set(widths)) > 1)} {listed(widths)}"
    return f"{counted(searched or over.values('n_heads'), 'head')}{each}{values}, {width}"
