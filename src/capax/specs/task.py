"""The base of all tasks. No other part of capax asks which task it is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from capax.errors import CapaxError, SpecError, shown
from capax.specs.model import Model, Scored
from capax.specs.plugins import Registry, resolve, source_sha256
from capax.specs.spec import LARGEST_LIBRARY, Tagged, positive, whole
from capax.specs.training import Training
from capax.specs.transformer import Transformer

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import Int

    from capax.specs.protocols import Protocol
    from capax.text import Over

Purpose = Literal["loss", "recall", "information"]
"""What a model's outputs are used for: the training loss, counting recalled items, or their probabilities."""


class Task(Tagged):
    """What a model has to memorize.

    A subclass with a tag of its own (`task: Literal["pairs"] = "pairs"`) and a field or property `library_size` is a
    task for every command. One whose items are tokens says `sizes` (`vocab_size` and `context`), `guess_probability`
    and `tokens`; another brings a library of its own, and a model that reads it.

    Attributes:
        reads: what a model is given of an item. Models that read the same learn the task.
        learner: the model that learns it where none is said.
        usual_training: training where a run gives nothing else.
        unit: what its items are called.
        loss_unit: of its training loss; empty where there is nothing to say.
        share: what the share of its items that are recalled is called, where results are told so; None where they are
            told as counts.
        metric: which of the `metrics` of a run is told with its count; empty for none.
        axes: fields that capacity may depend on, beside how many items there are; none stands for all whole numbers.
        library_class: its libraries (`capax.tasks.library.Library`), as `package.module:Class`.
        memory_class: a trained memory of it that was loaded (`capax.memory`).
        constructor: how weights are built for it without training (`capax.theory.construct.construct.Constructor`), as
            `package.module:name`; None where that is not known.
        promise: of how many of its items a plan expects a model to recall a share, as `package.module:name` of a
            function of task, model and share; None where no plan does.
        planner: the command `capax plan` of it, as `package.module:name`; None for that of its law's sizes.
    """

    tag_field: ClassVar[str] = "task"
    registry: ClassVar[Registry] = Registry("task")
    reads: ClassVar[str] = "tokens"
    learner: ClassVar[type[Model]] = Transformer
    usual_training: ClassVar[Mapping[str, Any]] = {}
    unit: ClassVar[str] = "items"
    loss_unit: ClassVar[str] = ""
    share: ClassVar[str | None] = None
    metric: ClassVar[str] = ""
    axes: ClassVar[tuple[str, ...]] = ()
    library_class: ClassVar[str] = "capax.tasks.tokens:TokenLibrary"
    memory_class: ClassVar[str] = "capax.memory:Memory"
    constructor: ClassVar[str | None] = None
    planner: ClassVar[str | None] = None
    promise: ClassVar[str | None] = None

    if TYPE_CHECKING:

        @property
        def task(self) -> str:
            """Its tag."""

        @property
        def library_size(self) -> int:
            """Items to remember."""

    @classmethod
    def refuse_unregistered(cls) -> None:
        """Refuse a class without a tag, with that of another, or whose learner is no model."""
        super().refuse_unregistered()
        if not (isinstance(cls.learner, type) and issubclass(cls.learner, Model)):
            raise SpecError(f"{cls.__name__}: learner: should be a model's class, got {shown(cls.learner)}")
        if source_sha256(cls.__module__) is None:
            return
        for taken, owner in ((cls.learner.model_fields, "the model"), (Training.model_fields, "the training")):
            if both := [name for name in cls.model_fields if name in taken and name not in Task.model_fields]:
                raise SpecError(f"{cls.__name__}: {both[0]}: is a field of {owner}, too; call it otherwise")

    @classmethod
    def of_size(cls, size: int, **fields: Any) -> Self:
        """A task of so many items."""
        return cls(**{**fields, "library_size": size})

    @classmethod
    def learners(cls) -> list[type[Model]]:
        """The models that learn it, its usual one first."""
        kinds = [model for model in Model.registry.values() if model.reads == cls.reads]
        return sorted(kinds, key=lambda model: model is not cls.learner)

    def library_type(self) -> Any:
        """The class of its libraries, imported.

        Raises:
            SpecError: for one that cannot be imported.
        """
        try:
            return resolve(self.library_class)
        except (ImportError, AttributeError, ValueError) as error:
            raise SpecError(
                f"task {self.tag()!r}: library_class: package.module:Class that can be imported (of the plugin's own "
                f"file f'{{__name__}}:Class'), got {self.library_class!r:.80}: {error}"
            ) from None

    @property
    def drawn(self) -> bool:
        """Whether another seed draws another library; none does where the field `library` says so."""
        return getattr(self, "library", "random") == "random"

    @property
    def drawn_where(self) -> str:
        """When its libraries are drawn, and what is so instead, as the end of a sentence."""
        return f"library should be 'random', got {getattr(self, 'library', 'one that is not drawn')!r}"

    @property
    def largest_library(self) -> int:
        """Items that a drawn library can have."""
        return LARGEST_LIBRARY

    @property
    def has_probabilities(self) -> bool:
        """Whether a model's outputs are probabilities of an item's targets, so that bits can be counted."""
        return self.reads == "tokens"

    @property
    def targets_drawn(self) -> bool:
        """Whether targets are drawn from a known distribution, rather than given by the library itself."""
        return True

    @property
    def files(self) -> tuple[str, ...]:
        """Fields that name the user's files: `library`, where the content of one is known (`library_sha256`)."""
        return () if getattr(self, "library_sha256", None) is None else ("library",)

    @property
    def items(self) -> str:
        """What an item is, in a few words."""
        given = self.model_dump(exclude={self.tag_field, "library_size"})
        return ", ".join(f"{name} {value}" for name, value in given.items())

    def words(self) -> str:
        """The task in a few words."""
        return f"{self.task}, {self.items}"

    def described(self, over: Over, number: str) -> str:
        """What is to be remembered and when it counts as recalled, in a sentence, for several such tasks.

        Args:
            over: those tasks, which differ in sizes alone.
            number: their items, in words.
        """
        return f"{number} {self.unit} ({self.words()})"

    def usual_with(self, model: Model) -> Mapping[str, Any]:
        """What `usual_training` is with a model, where it is something else."""
        return {}

    def _of_file(self, items: str) -> str:
        """Items in a few words, after the name of the file that they come from, where there is one."""
        library = getattr(self, "library", "random")
        return items if library in ("random", "all") else f"{Path(library).name}, {items}"

    def _user_file(self, path: str) -> str:
        return f"the user's {Path(path).name} (sha256 {getattr(self, 'library_sha256', None) or '':.8}…)"

    def sizes(self) -> dict[str, int]:
        """What a model has to know of it to be built; of tokens `vocab_size` and `context` (seq_len − 1)."""
        raise NotImplementedError(f"{type(self).__name__}.sizes")

    def bound_sizes(self) -> dict[str, Any]:
        """The sizes that bounds ask for, by the names of `capax.bounds`, and `bits_per_item` or `graph_bits`."""
        sizes = self.sizes()
        found: dict[str, Any] = {name: sizes[name] for name in ("vocab_size", "context_size") if name in sizes}
        if "context" in sizes:
            seq_len = self.tokens_per_item or sizes["context"] + 1  # a token before the first is none of the item's
            found |= {"seq_len": seq_len, "context_size": sizes["context"]}
        bits = None if self.guess_probability() is None else self.bits_per_item()
        return found | {"library_size": self.library_size, "bits_per_item": bits}

    def bound_facts(self) -> dict[str, Any]:
        """What bounds may know of it beside its sizes, by the names of their arguments."""
        return {}

    def least_graph_bits(self) -> float | None:
        """The largest b known such that no graph is drawn with a probability above 2^−b; None where none is."""
        return None

    def tokens(self, size: int, generator: np.random.Generator) -> Int[np.ndarray, "size seq_len"]:
        """So many items, of which the last token is the target; for tasks of tokens without a library of their own."""
        raise NotImplementedError(f"{type(self).__name__}.tokens")

    def scored(self, purpose: Purpose) -> Scored:
        """Positions that count for a purpose, where items are tokens."""
        return "last"

    def kept_with_weights(self) -> dict[str, str]:
        """Texts that weights are of no use without, such as a tokenizer."""
        return {}

    def beside_checkpoint(self) -> dict[str, bytes]:
        """Files that a checkpoint of a model that learned it has beside its weights, by their names."""
        return {}

    def rows(self, library_size: int) -> int:
        """Rows of a library, in which items are counted."""
        return library_size

    def learned_rows(self, library_size: int, model: Model) -> int:
        """Rows that batches of the training are made of: those that are counted, unless others are learned from."""
        return self.rows(library_size)

    def library_bytes(self, model: Model) -> int:
        """Bytes that one library takes while it is drawn, at least."""
        return 2 * 8 * self.library_size * (self.sizes()["context"] + 1)

    def refuse_faults(self) -> None:
        """Refuse a task of a plugin whose methods fail, or say what cannot be: nothing is trained for it.

        Raises:
            SpecError: that names the task and the method.
        """
        if source_sha256(type(self).__module__) is None:
            return
        of = f"task {self.tag()!r}:"
        sizes = self._told("sizes")
        if not hasattr(self, "library_size"):
            raise SpecError(f"{of} needs a field library_size: how many items are to be remembered")
        whole("library_size", self.library_size)
        lacks = {"vocab_size", "context"} - set(sizes if isinstance(sizes, Mapping) else ())
        drawn = type(self).tokens is not Task.tokens
        if not isinstance(sizes, Mapping) or (drawn and lacks):
            raise SpecError(f"{of} sizes() should give vocab_size and context, got {shown(sizes)}")
        for name, size in sizes.items():
            whole(f"{of} sizes(): {name}", size)
        guess = self._told("guess_probability")
        if guess is not None:
            positive(f"{of} guess_probability()", guess, 1.0)
        elif own := [name for name in ("lucky", "bits_per_item") if getattr(type(self), name) is getattr(Task, name)]:
            raise SpecError(
                f"{of} guess_probability() should give a probability, or it needs its own {' and '.join(own)}"
            )
        if drawn:
            import numpy as np

            one, other = (
                np.asarray(self._told("tokens", self.library_size, np.random.default_rng(0))) for _ in range(2)
            )
            if not np.array_equal(one, other):
                raise SpecError(f"{of} tokens() should draw from its generator alone: two calls with equal ones differ")

    def _told(self, method: str, *arguments: Any) -> Any:
        """What a method gives; a failure is one of the task's."""
        try:
            return getattr(self, method)(*arguments)
        except CapaxError:
            raise
        except Exception as error:
            kind = type(error).__name__
            raise SpecError(f"task {self.tag()!r}: {method}() failed ({kind}: {error!s:.200})") from error

    def guess_probability(self) -> float | None:
        """Probability that a guess recalls an item; None where there is nothing to be guessed item by item."""
        raise NotImplementedError(f"{type(self).__name__}.guess_probability")

    def lucky(self, library_size: int, metrics: Mapping[str, float]) -> float:
        """Items that guesses recall of so many.

        Args:
            metrics: of the training that counts.
        """
        probability = self.guess_probability()
        assert probability is not None
        return library_size * probability

    def bits_per_item(self) -> float:
        """What recalling an item is worth against a guess: −log2 of a guess's probability."""
        probability = self.guess_probability()
        assert probability is not None
        return -math.log2(probability)

    def bits_recalled(self, recalled: float, above_chance: float, worth: float, metrics: Mapping[str, float]) -> float:
        """What so many recalled items are worth: those above chance as many bits each.

        Args:
            worth: bits of an item.
            metrics: of the training that counts, and `recalled`, its own count.
        """
        return above_chance * worth

    def uniform_nats(self) -> float | None:
        """The loss of a uniform guess, where every scored prediction is one among as many, alike; else None."""
        return None

    def information_per_item(self) -> float:
        """H: −log2 of a uniform guess's probability of all that the loss covers of an item, which is most to be known.

        Of tokens the guess is of any token of the vocabulary; else it is `bits_per_item`.
        """
        if self.reads != "tokens":
            return self.bits_per_item()
        sizes = self.sizes()
        return math.log2(sizes["vocab_size"]) * (1 if self.scored("loss") == "last" else sizes["context"])

    @property
    def tokens_per_item(self) -> int | None:
        """Tokens of an item, where it is made of tokens (Härmä et al. 2024, eq. 12)."""
        return self.sizes()["context"] + 1 if self.reads == "tokens" else None

    def columns(self) -> dict[str, Any]:
        """Its columns in a table: its fields; for tokens also `seq_len` and `vocab_size`."""
        fields = self.model_dump(mode="json")
        if self.reads == "tokens":
            fields = {"seq_len": self.tokens_per_item, "vocab_size": self.sizes()["vocab_size"]} | fields
        return fields

    def refuse(self, model: Model, protocol: Protocol) -> None:
        """Refuse a model or a protocol that it cannot be learned by.

        Raises:
            ValueError: that names the field.
        """
