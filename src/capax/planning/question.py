"""A question to a law: the sizes that are given, and the models that they allow."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, get_origin

import numpy as np

from capax.errors import LawError, OutsideDomain, SpecError, shown
from capax.laws.files import load_law
from capax.laws.law import Law
from capax.planning.answers import Columns, predicted
from capax.specs import Spec, Task
from capax.specs.spec import LARGEST, LARGEST_LIBRARY, whole
from capax.store.tables import IN_BITS, OF_RECALL

MOST_CHOICES = 10_000
"""Values that a law's domain may offer along one axis."""
MOST_CANDIDATES = 200_000
TRAINED = "trained"
FROZEN = "as a frozen read-out need not tell the tokens of one place from those of others"
"""Why only trained tables are planned with where not every token may follow."""
COUNTED = ("trainable_parameters", "total_parameters", "effective_parameters", "total_key_dim")
"""Columns that follow from the sizes."""


GAINS = {"n_heads": "head", "d_model": "width", "d_head": "head_size"}
"""What one more step along an axis is called where it has a shorter name."""


class Question:
    """A law, what it is asked about, and the models that it may mean.

    Attributes:
        kind, model: the classes of the task that is asked about and of the model. They are those of the law's data,
            unless another `task` is given: a law in bits then follows its items by their information.
        following: what another task has by itself where sequences are asked for: length, vocabulary and loss.
        told: what the law says of how its data were measured.
        task: with the sizes that are asked about.
        asked: those sizes.
        given: those of them that the caller gave.
        sizes: what the caller gave of the model's.
        along: how far along its curve a training is, for a law of curves (`exposures`).
        axes: the model's sizes that the law may depend on, the last varying fastest.
        kinds: fields of task and model that are no sizes: those that the law depends on, and those that were given.
        tables: kinds of embeddings to choose from, where none was given and the law knows several.
        per_item: what an item takes of what the law counts: of a law in bits its information, or what recall counts.
    """

    def __init__(self, law: Law | str, given: Mapping[str, Any], items: int | None = None) -> None:
        self.law = law = load_law(law)
        self._specs: dict[tuple[Any, ...], Any] = {}
        given = {name: value for name, value in given.items() if value is not None}
        own = law.domain_.task_class(law.items)
        self.kind = _task(law, given.pop("task", own.tag()))
        self.model = law.domain_.model_class(law.items)
        self.told = {name: value for name, value in law.domain_.protocol.items() if value is not None}
        self.following = {} if self.kind is own else self._following(given)
        given = {name: value for name, value in given.items() if name not in self.following}
        given |= {"embeddings": TRAINED} if self.following else {}
        self.along = self._along(given)
        given = {name: value for name, value in given.items() if name not in self.along}
        coded = [name for name in law.coded if name in law.columns and name not in self.following]
        self.tables = law.coded["embeddings"] if "embeddings" in coded and "embeddings" not in given else None
        self.kinds = {name: self._kind(name, given.pop(name, None)) for name in coded}
        self.kinds |= {name: given.pop(name) for name in list(given) if self._is_kind(name, given[name])}
        self.axes = self._axes(given)
        self._refuse_columns_of_no_model(law.columns)
        self._refuse_unknown(given)
        if items is not None and law.needed_for is not None:
            given[law.needed_for] = items
        of_task = self.kind.size_fields()
        self.given = {name: whole(name, value, error=LawError) for name, value in given.items() if name in of_task}
        self.sizes = {name: value for name, value in given.items() if name not in of_task}
        in_bits = law.target in IN_BITS  # such a law is asked for more items than one can train on
        if not in_bits and (items or 1) > LARGEST_LIBRARY:
            raise LawError(f"items: at most {LARGEST_LIBRARY} items, got {items}")
        self.task = self.kind.of_size(1 if in_bits else items or 1, **self._fields())
        worth = self.task.bits_per_item if law.target in OF_RECALL else self.task.information_per_item
        self.per_item = worth() if in_bits else 1.0
        known = self.task.columns()
        self.asked = {
            name: known[name] if name in known else getattr(self.task, name)
            for name in (*self.kind.size_axes(), *self.given)
        }
        self._leave_out_the_usual()
        if items is not None and law.needed_for is None and items > self.most:
            told = ", ".join(f"{name} {value}" for name, value in self.asked.items())
            raise LawError(f"items: at most {self.most} {self.kind.unit} ask distinct questions ({told}), got {items}")

    def _axes(self, given: Mapping[str, Any]) -> tuple[str, ...]:
        """The model's sizes that the law may depend on, or that were given; the usual ones last."""
        of_task, of_model = self.kind.size_fields(), self.model.size_fields()
        known_already = (*of_task, *self.along, *COUNTED, *self.law.coded, *self.following)
        further = [name for name in self.law.columns if name not in known_already]
        further += [name for name in given if name in of_model and name not in of_task]
        usual = self.model.size_axes()
        return (*(name for name in dict.fromkeys(further) if name not in usual), *usual)

    def _fields(self) -> dict[str, Any]:
        """The fields of the task: as they were given, else as all the law's data had them."""
        fields: dict[str, Any] = dict(self.given)
        if not self.following:
            own_fields = self.kind.model_fields  # of facts, lengths and vocabulary follow from the file
            missing = [name for name in self.kind.size_axes() if name in own_fields and name not in self.given]
            known = (*self.law.domain_.ranges, *self.law.columns)
            self.refuse_missing([name for name in missing if self.only(name) is None and name in known])
            fixed = {name: value for name in missing if (value := self.only(name)) is not None}
            fields = self.of(self.kind) | fixed | fields
        return fields | {name: value for name, value in self.kinds.items() if name in self.kind.model_fields}

    def _refuse_unknown(self, given: Mapping[str, Any]) -> None:
        """Raise LawError for what is no size of the task or the model."""
        of_task = self.kind.size_fields()
        for name, value in given.items():
            if name not in of_task and self._is_word(name):
                raise LawError(
                    f"{name}: the law's data do not say theirs, so it cannot be asked for, got {shown(value)}"
                )
            if name not in of_task and name not in self.axes:
                allowed = ", ".join({**of_task, **self.model.size_fields(), **dict.fromkeys(self.axes)})
                raise LawError(f"{name}: no such size; allowed are {allowed}; got {shown(value)}")

    def _refuse_columns_of_no_model(self, columns: Sequence[str]) -> None:
        """Raise LawError where the law depends on what no model has, such as a column of somebody's table."""
        model = self.model
        if model.options is not None:  # a module's arguments have names of their own
            return
        for name in self.axes:
            if name in columns and name not in model.model_fields:
                raise LawError(
                    f"{name}: is no size of the model {model.tag()}, but a column of the law's table: ask the law "
                    "itself, in Python by capax.load_law(…).predict"
                )

    def _leave_out_the_usual(self) -> None:
        """Forget sizes that say what is so without them, such as as many heads of keys as heads: laws know no such."""
        usual = self.model.size_axes()
        if not all(isinstance(self.sizes.get(name), int) for name in usual):
            return
        single = {name: value for name, value in self.sizes.items() if isinstance(value, int)}
        simplest = self.spec(single).simplest(**self.task.sizes())
        further = single.keys() - {*usual, *self.law.columns}
        plain = {name for name in further if getattr(simplest, name, name) is None}
        self.sizes = {name: value for name, value in self.sizes.items() if name not in plain}
        self.axes = tuple(name for name in self.axes if name not in plain)

    @property
    def most(self) -> float:
        """Distinct items that there can be; infinite where they are more than fit into memory, or those of a file."""
        most = self.task.largest_library
        return most if self.task.drawn and not self.task.files and most < LARGEST_LIBRARY else math.inf

    def _is_kind(self, name: str, given: Any) -> bool:
        """Whether a word was given for a field of the task or the model of which the law's data were of some kinds."""
        known = {**self.law.domain_.protocol, **self.law.domain_.kinds}
        return self._is_word(name) and name in known and isinstance(given, str)

    def _is_word(self, name: str) -> bool:
        """Whether a field of the task or the model is one of some words."""
        fields = {**self.kind.model_fields, **self.model.model_fields}
        return name in fields and get_origin(fields[name].annotation) is Literal

    def _kind(self, name: str, given: Any) -> str:
        """What is asked about of a field that is no size: what was given, what all data had, or the default.

        Raises:
            LawError: where it is given, and none of those that the law knows.
        """
        known = self.law.domain_.kinds.get(name, ())
        owner = self.kind if name in self.kind.model_fields else self.model
        found = given or (known[0] if len(known) == 1 else owner.model_fields[name].default)
        if found not in self.law.coded[name]:
            raise LawError(f"{name}: {' or '.join(self.law.coded[name])}, got {shown(found)}")
        return str(found)

    def _following(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Length, vocabulary and loss of another task, as the law's columns have them of sequences.

        Raises:
            LawError: where one is given that differs.
        """
        sizes = {name: whole(name, given[name], error=LawError) for name in self.kind.size_fields() if name in given}
        found = as_sequences(self.kind.of_size(1, **sizes))
        for name, value in found.items():
            if given.get(name, value) != value:
                raise LawError(f"{name}: follows from {self.kind.unit}: {value}, got {shown(given[name])}")
        if (tables := given.get("embeddings", TRAINED)) != TRAINED:
            raise LawError(f"embeddings: of {self.kind.unit} {TRAINED}, {FROZEN}, got {shown(tables)}")
        return found

    @property
    def named(self) -> dict[str, Any]:
        """The sizes that are asked about, and the task where the law's data were of another."""
        return self.asked | ({"task": self.kind.tag()} if self.following else {})

    def _along(self, given: Mapping[str, Any]) -> dict[str, int]:
        """How far along its curve a training is; empty for a law of anything else.

        Raises:
            LawError: where it is not given.
        """
        name = self.law.along
        if name is None:
            return {}
        if name not in given:
            raise LawError(f"{name}: is required, for the law depends on it")
        return {name: whole(name, given[name], error=LawError)}

    def of(self, kind: type[Spec], files: bool = False) -> dict[str, Any]:
        """What the law's data say of a spec; where their items come from only if asked for, or if it needs a file."""
        own = kind.model_fields
        told = {name: value for name, value in self.told.items() if name in own}
        needs_file = "library" in own and own["library"].is_required()
        return told if files or needs_file else {name: value for name, value in told.items() if name != "library"}

    def refuse_missing(self, names: Sequence[str]) -> None:
        """Raise LawError for sizes that have to be given, with why."""
        needed = [name for name in names if name in self.law.columns]
        others = [name for name in names if name not in needed]
        said = [
            f"{', '.join(some)}: {'is' if len(some) == 1 else 'are'} required, {why}"
            for some, why in (
                (needed, f"for the law depends on {'it' if len(needed) == 1 else 'them'}"),
                (others, "as the law's data had several"),
            )
            if some
        ]
        if said:
            raise LawError("; ".join(said))

    def only(self, name: str) -> int | None:
        """The one value of a size that all the law's data had; None where they had several, or do not say."""
        low, high = self.law.domain_.ranges.get(name, (None, None))
        if low is not None:
            return int(low) if low == high else None
        told = self.told.get(name)
        return told if isinstance(told, int) else None

    def choices(self, name: str, multiple: int, reach: int = 1) -> list[int]:
        """Values of one of the model's sizes: those that were given, or what the law's domain holds, rising.

        Args:
            reach: how many times beyond the domain's end they go.
        """
        given = self.sizes.get(name)
        if given is not None:
            values = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]
            if not values:
                raise LawError(f"{name}: positive integers, got none")
            return sorted({whole(name, value, error=LawError) for value in values})
        field, domain = self.model.model_fields.get(name), self.law.domain_
        if name in domain.ranges:
            low, high = domain.ranges[name]
            high *= reach
            if (high - low) / multiple > MOST_CHOICES:
                raise LawError(f"{name}: {low:g} to {high:g} are too many to choose from; give the values")
            if found := list(range(math.ceil(low / multiple) * multiple, math.floor(high) + 1, multiple)):
                return found
        elif isinstance(told := self.told.get(name), int):
            return [told]
        elif field is not None and isinstance(field.default, int) and name not in self.law.columns:
            return [field.default]
        raise LawError(f"{name}: the law's domain ({domain.in_words()}) offers none; give the values to choose from")

    def check_multiple(self, axis: str, multiple: int | None) -> None:
        """Raise LawError where values are to be multiples of something, and are given."""
        if multiple is not None and axis in self.sizes:
            raise LawError(f"multiple: not where {axis} is given, whose values are tried as they are; got {multiple}")

    @property
    def gains(self) -> dict[str, str]:
        """What a step along an axis adds, by name, and the axis: that of heads, and the last."""
        names = [name for name in dict.fromkeys(("n_heads", self.axes[-1])) if name in self.axes]
        return {f"gain_of_{GAINS.get(name, name)}": name for name in names}

    def grid(self, multiple: int | None = None, reach: int = 1, between: Collection[int] = ()) -> dict[str, list[int]]:
        """Values of each axis; of a law of what is needed without the sizes that follow from that.

        Args:
            multiple: what those of the last axis are multiples of.
            reach: how many times beyond the domain's end the last axis goes, or in doublings the one of the law's.
            between: further values of the latter.
        """
        names = [name for name in self.axes if name in self.sizes or name not in self.law.found]
        self.check_multiple(names[-1], multiple)
        by = dict(self.model.steps) | ({} if multiple is None else {names[-1]: multiple})
        beyond = self.law.beyond or names[-1]
        found = {
            name: self.choices(name, by.get(name, 1), reach if name == names[-1] == beyond else 1) for name in names
        }
        if beyond in names[:-1] and beyond not in self.sizes:
            doubled = [found[beyond][-1] * 2**doubling for doubling in range(1, int(math.log2(reach)) + 1)]
            found[beyond] = sorted({*found[beyond], *doubled, *between})
        return found

    def models(self, grid: Mapping[str, Sequence[int]], probability: float | None = None) -> list[Any]:
        """A model for each combination of a grid that there can be, of the kind of the law's data.

        Raises:
            SpecError: when there is none.
        """
        if (count := math.prod(len(values) for values in grid.values())) > MOST_CANDIDATES:
            raise LawError(f"{', '.join(grid)}: at most {MOST_CANDIDATES} combinations, got {count}")
        found, error = [], None
        for values in itertools.product(*grid.values()):
            sizes = dict(zip(grid, values, strict=True))
            try:
                found.append(self.spec(sizes | self._split(sizes, probability)))
            except SpecError as refused:
                error = refused
        if not found:
            assert error is not None
            raise error
        return found

    def _split(self, sizes: Mapping[str, int], probability: float | None) -> dict[str, int]:
        """The sizes that follow from what is needed, expected or with a probability."""
        if self.law.needed_for is None or all(name in sizes for name in self.law.found):
            return {}
        row = {name: np.array([value]) for name, value in {**self.asked, **sizes}.items()}
        needed = predicted(self.law, row) if probability is None else self.law.quantile(row, probability)
        most = self.task.library_size  # one edge a head is always enough, and can be built
        if needed[0] > most and "n_heads" not in sizes:
            return {"n_heads": most, "d_head": 1}
        return self.model.shaped(float(needed[0]), self.asked | self.task.sizes(), **sizes)

    def spec(self, sizes: Mapping[str, int], kinds: Mapping[str, str] | None = None) -> Any:
        """A model of these sizes; what are no fields of it are options of a module.

        Args:
            kinds: fields in place of those that were asked about.
        """
        key = (tuple(sizes.items()), tuple((kinds or {}).items()))
        if key not in self._specs:  # a plan asks for each many times
            self._specs[key] = self._spec(sizes, {**self.kinds, **(kinds or {})})
        return self._specs[key]

    def _spec(self, sizes: Mapping[str, int], kinds: Mapping[str, str]) -> Any:
        own = self.model.model_fields
        fields = self.of(self.model) | {name: value for name, value in sizes.items() if name in own}
        fields |= {name: value for name, value in kinds.items() if name in own}
        further = {name: value for name, value in sizes.items() if name not in own}
        if (options := self.model.options) in fields:
            fields[options] = json.loads(fields[options]) | further
        return self.model(**self.model.completed(fields))

    def table(self, models: Sequence[Any]) -> Columns:
        """One row per model, with every column that a law may want."""
        counts = [model.built_counts(**self.task.sizes()) for model in models]
        if max(count["total"] for count in counts) > LARGEST:
            raise LawError(f"{', '.join(self.axes)}: at most 2^63 - 1 parameters, got more")
        known = [model.columns() for model in models]
        return {
            **{name: np.full(len(models), value) for name, value in {**self.following, **self.asked}.items()},
            **{name: np.array([fields[name] for fields in known]) for name in self.axes},
            **{f"{kind}_parameters": np.array([count[kind] for count in counts]) for kind in ("trainable", "total")},
            **{name: np.full(len(models), value) for name, value in self.kinds.items()},
            **{name: np.array([one[name] for one in known]) for name in self.kinds if name in known[0]},
            **{name: np.full(len(models), value) for name, value in self.along.items()},
            **self._counted(models),
        }

    def _counted(self, models: Sequence[Any]) -> Columns:
        """Further columns that follow from the sizes, where the law has them."""
        found = {}
        if "effective_parameters" in self.law.columns or self.law.target in IN_BITS:
            counts = [model.effective_parameters(**self.task.sizes()) for model in models]
            found["effective_parameters"] = np.array(counts)
        if hasattr(models[0], "total_key_dim"):
            found["total_key_dim"] = np.array([one.total_key_dim for one in models])
        return found

    def untold(self) -> tuple[str, ...]:
        """A note of what the law's data, such as somebody's table, do not say of what it is asked about."""
        domain = self.law.domain_
        if self.following:
            data = domain.task_class(self.law.items).unit
            return (f"the law's data were of {data}: {self.kind.unit} are taken to be {self.per_item:.4g} bits each",)
        known = {*self.law.columns, *self.law.found, *domain.ranges, *domain.protocol, *domain.kinds}
        names = [name for name in (*self.asked, *self.axes) if name not in known]
        return (f"the law's data do not say their {', '.join(names)}: it knows nothing of these",) if names else ()

    def outside(
        self, ends: Iterable[Mapping[str, Any]], extrapolate: bool | None, *, derived: bool = True
    ) -> tuple[str, ...]:
        """Why some rows lie outside the law's domain.

        Args:
            ends: the rows.
            extrapolate: whether the domain may be left.
            derived: whether what follows from several sizes counts, such as a load.

        Raises:
            OutsideDomain: unless it may be left, as it may be where nothing is said by a law that travels.
        """
        domain, rows = self.law.domain_, map(self.law.bounded, ends) if derived else ends
        found = tuple(dict.fromkeys(reason for row in rows for reason in domain.outside_in_words(row)))
        if found and not (self.law.travels if extrapolate is None else extrapolate):
            raise OutsideDomain(
                f"outside the domain of {self.law.name} ({self.law.source_}): {'; '.join(found)}; "
                "choose another law, or extrapolate all the same"
            )
        return found


def as_sequences(task: Task) -> dict[str, Any]:
    """Length, vocabulary and loss of the sequences that a task's items are as long as."""
    known = task.sizes()  # a sequence's last token is not read
    return {"seq_len": known["context"] + 1, "vocab_size": known["vocab_size"], "loss": task.scored("loss")}


def follows(law: Law, kind: type[Task]) -> bool:
    """Whether a law can be asked about a task that its data were not of.

    So can one in bits that knows trained tables, about items that the same models read and whose information needs no
    file.
    """
    field = kind.model_fields.get("library")
    of_file = field is not None and field.is_required()
    knows = "embeddings" in law.columns or law.domain_.protocol.get("embeddings") == TRAINED
    reads = kind.reads == law.domain_.model_class(law.items).reads
    return law.target in IN_BITS and knows and reads and not of_file


def _task(law: Law, tag: Any) -> type[Task]:
    """The task of a tag: that of the law's data, or another that it can be asked about.

    Raises:
        LawError: where it cannot.
    """
    own = law.domain_.task_class(law.items)
    known = {kind.tag(): kind for kind in Task.registry.values() if kind is own or follows(law, kind)}
    if tag not in known:
        raise LawError(f"task: {', '.join(sorted(map(str, known)))}, got {shown(tag)}")
    return known[tag]
