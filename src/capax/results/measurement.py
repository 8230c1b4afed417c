"""The result of a measurement: immutable, to and from JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from capax.errors import CapaxError, SpecError
from capax.overview import Displayed, Overview
from capax.results.luck import SIGNIFICANCE, luck_p
from capax.results.parts import Amount, CapacityEstimate, Member, Parameters, StopReason
from capax.results.recall import Breakdown
from capax.results.result import Interval, Result
from capax.results.searches import BuiltChannel, KeyDimensionSearch, Search, ShatterEpochs
from capax.specs import Run
from capax.specs.plugins import UnknownTag, resolve

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCHEMA_VERSION: Literal[1] = 1


class ResultError(CapaxError):
    """A JSON text is not a measurement of this version."""


OLDER = (
    *("f1", "precision", "recall", "margin"),
    *("n_heads", "d_head", "total_key_dim", "total_key_dim_interval", "per_heads"),
)
"""Fields that measurements of earlier versions had."""


class Measurement(Displayed, Result):
    """One measurement, whole.

    Counts are raw; `chance` is how many of `library_size` items luck recalls (mls: of those of the largest library):
    guesses, or one constant answer to all, whichever is more. `memorized` is the best restart (mac), the largest
    library memorized whole (mls) or the best trial (shatter).
    """

    memorized: int
    memorized_per_restart: tuple[int, ...]
    chance: Annotated[
        float,
        Field(description="The larger of the two that follow; of relations, and in runs of earlier versions, of one."),
    ]
    chance_uniform: Annotated[
        float | None, Field(description="Right guesses to expect. None of relations, and in runs of earlier versions.")
    ] = None
    chance_constant: Annotated[
        float | None,
        Field(
            description="Items that the best constant answer recalls: those of the commonest target. None as before."
        ),
    ] = None
    memorized_above_chance: float
    chance_p: Annotated[
        float | None,
        Field(
            description="The probability that luck recalls as many: a one-sided exact binomial test of `memorized` "
            "against `chance`, for the best of all evaluations of all trainings."
        ),
    ] = None
    above_chance: Annotated[
        bool | None,
        Field(description="Whether `chance_p` is at most 1 %. Where not, the count is no value in a fit."),
    ] = None
    interval: Annotated[
        Interval | None, Field(description="None where there is one training, or where restarts begin alike (a note).")
    ]
    library_size: int
    recallable: Annotated[
        int, Field(description="Items that can be recalled at all: fewer where one prefix has two targets.")
    ]
    bits: float
    bits_per_item: Annotated[
        float | None,
        Field(
            description="What an item counts in `bits`: that of a uniform guess, or the entropy of the user's targets "
            "where that is smaller. None in runs of earlier versions, which counted the former."
        ),
    ] = None
    bits_per_item_uniform: Annotated[
        float | None, Field(description="-log2 of the probability that a guess recalls an item; None as before.")
    ] = None
    target_entropy: Annotated[
        float | None,
        Field(
            description="Bits per item that the distribution of the library's targets has, position by position. None "
            "of relations and of real labels, and in runs of earlier versions."
        ),
    ] = None
    bits_per_parameter: Annotated[float, Field(description="Per trainable parameter.")]
    tokens_per_parameter: Annotated[
        float | None, Field(description="Per trainable parameter; None where items are not made of tokens.")
    ]
    units: Annotated[
        tuple[Amount, ...], Field(description="The same run by every definition; empty in runs of earlier versions.")
    ] = ()
    metrics: Annotated[
        dict[str, float], Field(description="What else the task measures, of the training that counts.")
    ] = {}  # noqa: RUF012 (pydantic copies it)
    parameters: Parameters
    epochs: Annotated[int, Field(description="Of the training that counts; of the longest for mls and shatter.")]
    steps: int
    seconds: float
    stop_reason: StopReason
    unreachable: Annotated[
        tuple[int, ...] | None,
        Field(description="Targets out of reach of a member's frozen read-out; None where there is none."),
    ]
    members: tuple[Member, ...]
    search: Search | KeyDimensionSearch | None = None
    shatter: ShatterEpochs | None = None
    capacity: CapacityEstimate | None = None
    breakdown: Annotated[
        Breakdown | None, Field(description="Of tasks whose items are of several groups, such as facts.")
    ] = None
    notes: tuple[str, ...] = ()
    name: Annotated[str | None, Field(description="What the user calls it; no part of the key.")] = None
    tags: Annotated[tuple[str, ...], Field(description="The user's words for what it belongs to; as `name`.")] = ()
    spec: Run
    key: str
    host: Annotated[str | None, Field(description="Where it was measured; None in runs of earlier versions.")] = None
    processor: Annotated[
        str | None,
        Field(description="The kind of processor, or GPU, that ended its training; None in runs of earlier versions."),
    ] = None
    versions: dict[str, str]
    schema_version: Literal[1] = SCHEMA_VERSION

    @model_validator(mode="before")
    @classmethod
    def _of_earlier_versions(cls, fields: Any) -> Any:
        """What runs on relations had as fields of their own is among the metrics and in the search."""
        if not isinstance(fields, dict) or not set(OLDER) & set(fields):
            return fields
        kept = {name: value for name, value in fields.items() if name not in OLDER}
        if fields.get("f1") is not None:
            kept["metrics"] = {name: fields[name] for name in OLDER[:4]} | dict(fields.get("metrics") or {})
        if fields.get("per_heads") is not None:
            found = {name: fields.get(name) for name in ("n_heads", "d_head", "total_key_dim", "per_heads")}
            kept["search"] = found | {"interval": fields.get("total_key_dim_interval")}
        return kept

    @property
    def whole(self) -> bool:
        """Whether all was recalled that can be, and nothing beside it where its task counts that, too.

        Of a search for the largest library: whether all trainings memorized the largest that it may try.
        """
        if isinstance(self.search, Search):
            return self.search.stop_reason == "all_succeeded"
        complete = self.stop_reason == "complete" or not self.spec.task.metric
        return self.memorized >= self.recallable and complete

    @property
    def n_heads(self) -> int | None:
        """Heads: those that a search found best, or the model's."""
        return self._size("n_heads")

    @property
    def d_head(self) -> int | None:
        """Channels of a head: those that a search found, or the model's."""
        return self._size("d_head")

    @property
    def total_key_dim(self) -> int | None:
        """n_heads · d_head: the smallest that suffices for protocol budget (D_K*), or the model's."""
        return self._size("total_key_dim")

    def _size(self, name: str) -> int | None:
        found: int | None = getattr(self.key_search or self.spec.model, name, None)
        return found

    @property
    def trained_channel(self) -> tuple[int, int] | None:
        """Heads and head size of the training that the counts, F1 and parameters of a search are of.

        They are not those of the key dimension it found where only built weights reach that.
        """
        if self.key_search is None:
            return None
        trained, widest = self.key_search.trained, getattr(self.spec.model, "d_model", 0)
        return trained.n_heads, trained.d_head or widest

    @property
    def key_search(self) -> KeyDimensionSearch | None:
        """The search of protocol budget."""
        return self.search if isinstance(self.search, KeyDimensionSearch) else None

    @model_validator(mode="after")
    def _tested(self) -> Self:
        if self.chance_p is None or self.above_chance is None:
            sizes = self.spec.protocol.counts_sizes
            size = max(self.memorized, 1) if sizes else self.library_size
            counts = 1 if sizes else sum(len(member.curve.epoch) for member in self.members)
            p = luck_p(self.memorized, self.chance / size, size, counts)
            object.__setattr__(self, "chance_p", p)
            if self.above_chance is None:
                object.__setattr__(self, "above_chance", p <= SIGNIFICANCE)
        return self

    @model_validator(mode="after")
    def _counted_anew(self) -> Self:
        known, model = self.parameters.effective, self.spec.model
        if known is None or not model.counts_anew:
            return self
        if (effective := model.effective_parameters(**self.spec.task.sizes())) != known:

            def per_parameter(part: Any, amount: float) -> Any:
                return part.model_copy(update={"per_effective_parameter": amount / effective})

            object.__setattr__(self, "parameters", self.parameters.model_copy(update={"effective": effective}))
            object.__setattr__(self, "units", tuple(per_parameter(unit, unit.amount) for unit in self.units))
            if (held := self.capacity) is not None:
                amount = held.bits if held.extrapolated is None else held.extrapolated
                object.__setattr__(self, "capacity", per_parameter(held, amount))
        return self

    @model_validator(mode="after")
    def _held_against_weights(self) -> Self:
        """A search of a version that built no weights is held against those that are always enough."""
        search, model, task = self.key_search, self.spec.model, self.spec.task
        if search is None or search.reached_by is not None or search.built is not None:
            return self
        enough = (
            None if "embeddings" in task.files else getattr(model, "most_key_dim", lambda _: None)(self.library_size)
        )
        built = None if enough is None else BuiltChannel(n_heads=enough, d_head=1, total_key_dim=enough)
        object.__setattr__(self, "search", search.held_against(built))
        return self

    def unit(self, name: str) -> Amount | None:
        """What was memorized by one definition; None in runs of earlier versions, and where it says nothing."""
        return next((one for one in self.units if one.name == name), None)

    def overview(self) -> Overview:
        """What a prompt or a notebook shows of it."""
        found: Overview = resolve("capax.results.overview:of_run")(self)
        return found

    def plot(self) -> Figure:
        """Draw its course: what its protocol shows, such as memorized and loss by epoch.

        Returns:
            A figure of matplotlib, none of pyplot's, with `savefig` and `axes`.

        Raises:
            ReportError: where there is nothing to draw, as of trials of which none completed.
        """
        found: Figure = resolve("capax.figures.course:plot")(self)
        return found

    def to_json(self) -> str:
        """One JSON object (docs/schemas/measurement.json)."""
        return self.model_dump_json()

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read `to_json` back.

        Raises:
            ResultError: when the text is not a measurement of this schema version.
            UnknownTag: when its task or model is of a plugin that is not loaded.
        """
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            raise ResultError(f"not a measurement: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
        except UnknownTag:
            raise
        except SpecError as error:
            raise ResultError(f"not a measurement: spec: {error}") from None
