"""Plans for an adapter: which rank and which layers make a frozen model recall a file of facts."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars

from capax.errors import LawError, shown
from capax.planning.adapter_plan import Adapter, AdapterPlan, Rule
from capax.planning.facts import FactsVerification, checked_recall, in_file
from capax.planning.fill import FEWEST, geometric, of_new
from capax.planning.fills import Measured, shares
from capax.planning.results import BYTES, Precision
from capax.protocols.measure import measure
from capax.results import LEVEL, Interval, Measurement, Standing
from capax.specs import Facts, Lora, Mac
from capax.specs.model import freedom
from capax.store import published, tables

STUDY = "lora.csv"
PLACES = ("attention", "mlp", "attention,mlp")
"""Targets that a plan chooses from where nothing is said."""
BITS_A_PARAMETER = 2.0
"""Of the rule that a parameter of an adapter holds so many bits (Schulman 2025)."""
NGUYEN = "Nguyen, refitted"
BY_SAMPLES = ((1_000, 8), (10_000, 16), (100_000, 32), (math.inf, 64))
"""The rule of ranks by how many samples there are, each up to so many."""
ADAPTER = ("base", "targets", "kind", "r")
"""Columns of a model that is an adapter."""
TRIED_SHARES = tuple(hundredths / 100 for hundredths in range(50, 100))
"""Shares recalled among which the least is named that the study tells."""


class Load(NamedTuple):
    """How many bits of facts an effective parameter takes for a share of them to be recalled.

    Attributes:
        bits: the geometric mean.
        spread: standard deviation of its logarithm.
        files: by which it is known.
    """

    bits: float
    spread: float
    files: int

    def quantile(self, level: float) -> float:
        """Of a new file's: Student's t, the mean's own error included."""
        return self.bits * math.exp(self.spread * of_new(self.files, level))


def rows(runs: Iterable[Measurement]) -> polars.DataFrame:
    """A row for each run of an adapter on facts: its file, its base, and what of the file is recalled."""
    found = []
    for run in runs:
        if run.spec.task.promise is None:
            continue
        model, task = run.spec.model.columns(), run.spec.task.columns()
        if not set(ADAPTER) <= set(model) or model.get("base_weights") == "shuffled":  # a control
            continue
        found.append(
            {
                "file": Path(task["library"]).stem,
                "base": Path(model["base"]).name,
                "base_parameters": run.parameters.total - run.parameters.trainable,
                **{name: model[name] for name in ("targets", "kind", "r")},
                "effective_parameters": run.parameters.effective,
                "trainable_parameters": run.parameters.trainable,
                "facts": run.library_size,
                "recalled": run.memorized,
                "entropy_bits": round(run.library_size * task["entropy_per_fact"], 1),
                "known_bits": round(known.amount if (known := run.unit("morris_bits")) else 0.0, 1),
                **{
                    name: None if (loss := run.metrics.get(name)) is None else round(loss, 4)
                    for name in ("base_loss", "base_loss_after")
                },
                "exposures": run.epochs,
                "stop_reason": run.stop_reason,
            }
        )
    return (
        polars.DataFrame(found).sort("file", "base", "targets", "effective_parameters") if found else polars.DataFrame()
    )


@cache
def study() -> polars.DataFrame:
    """The study of adapters that ships."""
    return tables.shipped(STUDY)


def curves(table: polars.DataFrame, targets: str) -> list[Measured]:
    """What a study says of each file and adapter: shares recalled, by bits of the facts per effective parameter.

    Args:
        targets: of these layers, or of any where the study has none of them.
    """
    of_these = table.filter(polars.col("targets") == targets)
    found = []
    for (name, *_), some in (of_these if len(of_these) else table).group_by(
        "file", "base", "targets", "kind", "r", maintain_order=True
    ):
        loads = (some["entropy_bits"] / some["effective_parameters"]).to_numpy()
        order = np.argsort(loads)
        found.append(Measured(str(name), loads[order], (some["recalled"] / some["facts"]).to_numpy()[order]))
    return found


def load(table: polars.DataFrame, targets: str, recall: float) -> Load:
    """The bits that an effective parameter takes for a share to be recalled; of some files an upper bound (`shares`).

    Raises:
        LawError: for a share that the study does not reach on three files.
    """
    found = curves(table, targets)
    known, bounds = shares(found, recall)
    if len(known) < FEWEST:
        of = targets if studied(table, targets) else " and ".join(sorted(set(table["targets"])))
        told = next((share for share in TRIED_SHARES if len(shares(found, share)[0]) >= FEWEST), None)
        least = "none" if told is None else f"those from {told:g} on"
        raise LawError(f"recall: of adapters on {of} the study tells {least}, got {recall:g}")
    every = [*known, *bounds]
    files = min(len(every), len({one.name for one in found}))  # adapters on several layers share their files
    return Load(*geometric(every), files)


def studied(table: polars.DataFrame, targets: str) -> bool:
    """Whether a study has adapters on these layers."""
    return targets in set(table["targets"])


def expected_recall(table: polars.DataFrame, targets: str, bits: float) -> float:
    """The share that is recalled of so many bits per effective parameter: the mean of the study's files.

    An adapter that is fuller than any of a file's is taken to recall as many facts as the fullest.
    """
    recalled = []
    for one in curves(table, targets):
        share = float(np.interp(math.log(bits), np.log(one.fills), one.recalls))
        recalled.append(share * min(1.0, float(one.fills[-1]) / bits))
    return float(np.mean(recalled))


class Layers(NamedTuple):
    """The layers that targets stand for, each by its inputs and outputs."""

    shapes: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, spec: Lora, facts: Facts) -> Layers:
        """Those of an adapter, whatever its rank."""
        shapes = {one.name: one.shape for one in spec.parameters(**facts.sizes()) if one.trained}
        inputs = {name: shape[1] for name, shape in shapes.items() if ".lora_A." in name}
        return cls(tuple((inputs[name], shapes[name.replace(".lora_A.", ".lora_B.")][0]) for name in inputs))

    def trainable(self, rank: int) -> int:
        """Numbers of an adapter of a rank."""
        return sum(rank * (inputs + outputs) for inputs, outputs in self.shapes)

    def effective(self, rank: int) -> int:
        """What its products can express."""
        return sum(freedom(inputs, rank, outputs) for inputs, outputs in self.shapes)

    def rank(self, enough: Any) -> int | None:
        """The smallest rank that is enough; None where none is. What is enough stays so at larger ranks."""
        ranks = range(1, max(map(min, self.shapes)) + 1)
        found = bisect_left(ranks, True, key=enough)
        return None if found == len(ranks) else ranks[found]


def plan_lora(
    facts: Facts,
    base: Path | str,
    *,
    recall: float = 0.99,
    probability: float = 0.9,
    targets: Sequence[str] = PLACES,
    precision: Precision = "float32",
    held_out: str | None = None,
) -> AdapterPlan:
    """The smallest adapters over a frozen model that recall a share of a file's facts with a probability.

    The facts have so many bits, by the entropy of each relation's answers. A study that ships says how many bits of
    facts an effective parameter of an adapter takes for so many of them to be recalled; its spread over files is in the
    interval. Its bases are small, and what a larger base changes is not in it: published adapters over bases of 20
    million to 1000 million parameters held more, as a rule, the larger the base was (`published:nguyen2026`).

    Args:
        facts: the file, as sentences of the base's tokenizer as a rule.
        base: folder of the frozen model.
        recall: share of the asked facts.
        probability: that an adapter recalls it.
        targets: layers to choose from, each as `Lora.targets`.
        precision: in which bytes are counted.
        held_out: as of `Lora`.

    Raises:
        LawError: for a value that is not allowed.
        SpecError: for a base or targets that cannot be.
    """
    if not isinstance(facts, Facts):
        raise LawError(f"facts: capax.Facts, got {shown(facts)}")
    checked_recall(facts, recall)
    if not 0.5 <= probability < 1:
        raise LawError(f"probability: at least 0.5 and below 1, got {shown(probability)}")
    table = study()
    bits, per_fact = facts.library_size * facts.known.entropy_per_fact, facts.known.entropy_per_fact
    adapters, notes, errors, layers, spec, told = [], [], [], {}, None, []
    for one in [targets] if isinstance(targets, str) else targets:
        spec = Lora(base=str(base), lora={"r": 1}, targets=one, held_out=held_out)
        if spec.targets in layers:
            continue
        layers[spec.targets] = Layers.of(spec, facts)
        try:
            found = load(table, spec.targets, recall)
        except LawError as error:  # of other layers it may be told
            errors.append(error)
            notes.append(f"{spec.targets}: {error}")
            continue
        told.append(spec.targets)
        if not studied(table, spec.targets):
            those = " and ".join(sorted(set(table["targets"])))
            notes.append(f"{spec.targets}: not in the study; its adapters on {those} stand for them")
        sure = found.quantile(1 - probability)
        rank = layers[spec.targets].rank(lambda r, of=layers[spec.targets], s=sure: of.effective(r) * s >= bits)
        if rank is None:
            notes.append(f"{spec.targets}: no rank is enough")
            continue
        adapters.append(_adapter(layers[spec.targets], spec.targets, rank, found, per_fact, probability, precision))
    if spec is None:
        raise LawError("targets: at least one, got none")
    if not told:
        raise errors[0]
    adapters.sort(key=lambda one: one.trainable_parameters)
    counts = spec.parameter_counts(**facts.sizes())
    frozen = counts["total"] - counts["trainable"]
    widest = max(told, key=lambda one: layers[one].trainable(1))
    rules = tuple(
        _rules(
            layers[widest],
            widest,
            frozen,
            table,
            recall,
            (bits, per_fact, facts.library_size),
            probability,
            precision,
            adapters,
        )
    )
    of_nguyen = next(rule.adapter.trainable_parameters for rule in rules if rule.name == NGUYEN)
    return AdapterPlan(
        file=in_file(facts),
        base=spec.base,
        base_parameters=frozen,
        recall=recall,
        probability=probability,
        precision=precision,
        adapters=tuple(adapters),
        rules=rules,
        source=_source(table),
        notes=(*notes, *_caveats(table, frozen, bits), *_of_nguyen(frozen, of_nguyen)),
    )


def _adapter(
    layers: Layers, targets: str, rank: int, found: Load, per_fact: float, probability: float, precision: Precision
) -> Adapter:
    effective = layers.effective(rank)
    low, high, least = (
        found.quantile(level) * effective / per_fact for level in ((1 - LEVEL) / 2, (1 + LEVEL) / 2, 1 - probability)
    )
    return Adapter(
        r=rank,
        targets=targets,
        trainable_parameters=layers.trainable(rank),
        effective_parameters=effective,
        studied=studied(study(), targets),
        bytes=layers.trainable(rank) * BYTES[precision],
        facts=found.bits * effective / per_fact,
        interval=Interval(low=low, high=high, level=LEVEL, of="a new training"),
        at_least=least,
    )


def _rules(
    layers: Layers,
    targets: str,
    base_parameters: int,
    table: polars.DataFrame,
    recall: float,
    asked: tuple[float, float, int],
    probability: float,
    precision: Precision,
    adapters: list[Adapter],
) -> Iterable[Rule]:
    """What the rules that people use say, of all layers together."""
    bits, per_fact, samples = asked
    most = max(map(min, layers.shapes))
    ranks: dict[tuple[str, Standing], int | None] = {
        (f"{BITS_A_PARAMETER:g} bits a parameter", "read"): layers.rank(
            lambda r: layers.trainable(r) * BITS_A_PARAMETER >= bits
        ),
        ("number of samples", "secondary"): min(next(rank for limit, rank in BY_SAMPLES if samples <= limit), most),
        (NGUYEN, "derived"): layers.rank(lambda r: published_bits(base_parameters, layers.trainable(r)) >= bits),
    }
    found = load(table, targets, recall)
    for (name, standing), rank in ranks.items():
        adapter = _adapter(layers, targets, rank or most, found, per_fact, probability, precision)
        yield Rule(
            name=name,
            enough=rank is not None,
            standing=standing,
            adapter=adapter,
            expected_recall=expected_recall(table, targets, bits / adapter.effective_parameters),
            size=adapter.trainable_parameters / adapters[0].trainable_parameters if adapters else None,
        )


def _source(table: polars.DataFrame) -> str:
    bases = ", ".join(f"{count / 1e6:.2g} M" for count in sorted(set(table["base_parameters"])))
    return f"{len(table)} runs on {table['file'].n_unique()} files, bases of {bases} parameters"


def _caveats(table: polars.DataFrame, base_parameters: int, bits: float) -> Iterable[str]:
    """What the study does not know."""
    low, high = (float(table["base_parameters"].min()), float(table["base_parameters"].max()))  # type: ignore[arg-type]
    if not low <= base_parameters <= high:
        yield (
            f"the base has {base_parameters / 1e6:.3g} M parameters, those of the study {low / 1e6:.2g} to "
            f"{high / 1e6:.2g} M: this is an extrapolation (published: a larger base's adapter holds more)"
        )
    most = float(table["entropy_bits"].max())  # type: ignore[arg-type]
    if bits > most:
        yield f"the facts have {bits:.3g} bits, those of the study {most:.3g} at most: this is an extrapolation"


def _of_nguyen(base_parameters: int, adapter_parameters: int) -> Iterable[str]:
    """Where the refitted law of Nguyen is asked outside its data."""
    table, outside = published.table("published:nguyen2026"), []
    for called, count in (("base", base_parameters), ("adapter", adapter_parameters)):
        low, high = (float(end) for end in (table[f"{called}_parameters"].min(), table[f"{called}_parameters"].max()))  # type: ignore[arg-type]
        if not low <= count <= high:
            outside.append(f"{called}s of {low / 1e6:.3g} to {high / 1e6:.3g} M parameters, here {count / 1e6:.3g} M")
    if outside:
        yield f"{NGUYEN}: an extrapolation, as the published data are of {' and of '.join(outside)}"


def published_bits(base_parameters: int, adapter_parameters: int) -> float:
    """What the adapters of Nguyen 2026 would hold, by the law that is refitted to them.

    Raises:
        TableError: when the data are not there.
    """
    weights = _weights_of_nguyen()
    return float(np.exp(weights @ [1.0, math.log(base_parameters), math.log(adapter_parameters)]))


@cache
def _weights_of_nguyen() -> np.ndarray:
    table = published.table("published:nguyen2026")
    logs = [np.log(table[name].to_numpy()) for name in ("base_parameters", "adapter_parameters", "capacity_bits")]
    weights, *_ = np.linalg.lstsq(np.column_stack([np.ones(len(table)), *logs[:2]]), logs[2], rcond=None)
    return weights


def verify_lora(
    facts: Facts, plan: AdapterPlan, adapter: Adapter | None = None, *, held_out: str | None = None, **how: Any
) -> FactsVerification:
    """Train an adapter of a plan on the file, once, and keep it.

    Args:
        facts: those that were planned for.
        adapter: the first when not given.
        held_out: as of `Lora`.
        how: store, seed, workers and progress of `measure`.

    Raises:
        LawError: where the plan has no adapter.
    """
    chosen = adapter or (plan.adapters[0] if plan.adapters else None)
    if chosen is None:
        raise LawError("verify: the plan has no adapter")
    store = how.get("store")
    model = Lora(base=plan.base, lora={"r": chosen.r}, targets=chosen.targets, held_out=held_out)
    run = measure(facts, model, protocol=Mac(restarts=1), keep_weights=store is not None, **how)
    share = run.memorized / run.library_size
    return FactsVerification(held=share >= plan.recall, recall=share, measurement=run)
