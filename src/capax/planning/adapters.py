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
from capax.planning.facts_file import checked_recall, in_file
from capax.planning.facts_plan import FactsVerification
from capax.planning.lora_study import PLACES, Load, expected_recall, load, studied, study
from capax.planning.results import BYTES, Precision
from capax.protocols.measure import measure
from capax.results import LEVEL, Interval, Standing
from capax.specs import Facts, Lora, Mac
from capax.specs.model import freedom
from capax.store import published

BITS_A_PARAMETER = 2.0
"""Of the rule that a parameter of an adapter holds so many bits (Schulman 2025)."""
NGUYEN = "Nguyen, refitted"
BY_SAMPLES = ((1_000, 8), (10_000, 16), (100_000, 32), (math.inf, 64))
"""The rule of ranks by how many samples there are, each up to so many."""


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
