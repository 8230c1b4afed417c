"""Theory beside data: every bound that has a value in bits on one axis, with what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from capax.errors import ReportError
from capax.figures.chart import Axis, Chart, Panel, Series
from capax.laws.law import Law
from capax.results import Measurement
from capax.theory.bounds.bound import Bound
from capax.theory.bounds.catalogue import Catalogue
from capax.theory.bounds.catalogue import bounds as catalogue_of

MEASURED = "measured"
HELD = "capacity"
REACHED = "reached, not converged"
UNITS = {
    HELD: "what it can hold at convergence",
    REACHED: "what it knew when its training ended, a lower bound of what it can hold",
    "bits": "what the items recalled above chance are worth",
    "morris_bits": "what their cross-entropy is below a uniform guess (Morris et al. 2025)",
    "allen_zhu_bits": "the same, of all items (Allen-Zhu and Li 2024)",
}
PROVED = "upper bound on what is counted"
KINDS = (
    PROVED,
    "upper bound by another criterion",
    "can be stored, by another criterion",
    "measured of other trained models",
    "another system of this size",
)
"""The kinds of rows, from top to bottom."""


def bounds(runs: Sequence[Measurement], law: Law | None) -> list[Chart]:
    """Bounds for the run of most bits of each task, beside what it stored."""
    best: dict[str, Measurement] = {}
    for run in runs:
        if run.key_search is not None:
            continue
        before = best.get(run.spec.task.task)
        if before is None or _rank(run) > _rank(before):
            best[run.spec.task.task] = run
    if not best:
        raise ReportError("no run by another protocol than budget, which searches for a size and counts no bits")
    charts = []
    for run in best.values():
        amounts: dict[str, float] = {unit.name: unit.amount for unit in run.units if unit.name in UNITS} or {
            "bits": run.bits
        }
        if run.capacity is not None:
            amounts = {REACHED if run.capacity.extrapolated is None else HELD: _held(run)} | amounts
        told = (
            f" Measured: the run of most bits (of equal ones the smallest model), {run.key[:12]} "
            f"({run.spec.task.items}; {run.memorized} of {run.library_size} recalled, {run.spec.protocol.words()}); "
            f"{'; '.join(_explained(amounts))}."
        )
        charts.append(chart(catalogue_of(run.spec), amounts, told))
    return charts


def _held(run: Measurement) -> float:
    """Bits that the model can hold, or what it stored where no capacity was measured."""
    if run.capacity is None:
        return run.bits
    return run.capacity.bits if run.capacity.extrapolated is None else run.capacity.extrapolated


def _rank(run: Measurement) -> tuple[float, int]:
    return _held(run), -run.parameters.trainable


def _explained(amounts: Mapping[str, float]) -> list[str]:
    return [f"{name}: {UNITS[name]}{'' if amount > 0 else ' (none)'}" for name, amount in amounts.items()]


def chart(found: Catalogue, measured: Mapping[str, float], told: str = "") -> Chart:
    """The bounds of one architecture in bits, and amounts that were measured with it.

    Args:
        measured: bits by unit; what is not above zero has no place on a logarithmic axis.
        told: said of them in the caption.

    Raises:
        ReportError: when no bound has a value in bits.
    """
    rows: dict[str, list[Bound]] = {kind: [] for kind in KINDS}
    for one in found.bounds:
        if one.bits is not None and one.bits > 0:
            rows[_kind(one)].append(one)
    if not any(rows.values()):
        raise ReportError("no bound has a value in bits for these sizes")
    series = []
    shown = {name: amount for name, amount in measured.items() if amount > 0}
    if shown:
        series.append(
            Series(
                name=MEASURED,
                kind="points",
                x=tuple(shown.values()),
                y=tuple(f"{name} ({MEASURED})" for name in shown),
                texts=tuple(f"{name}: {amount:.4g} bits" for name, amount in shown.items()),
            )
        )
    for place, (kind, members) in enumerate(rows.items(), start=1):
        ordered = sorted(members, key=lambda one: (one.bits or 0, one.name))
        if ordered:
            series.append(
                Series(
                    name=kind,
                    kind="points",
                    x=tuple(one.bits or 0 for one in ordered),
                    y=tuple(_label(one) for one in ordered),
                    texts=tuple(_told(one) for one in ordered),
                    group=place,
                )
            )
    names = tuple(str(name) for one in series for name in one.y)
    for lined in [name for name in (HELD, REACHED, "bits") if name in shown][:1]:
        x, y = (shown[lined],) * 2, (names[0], names[-1])
        series.append(Series(name=f"{lined} ({MEASURED})", kind="reference", x=x, y=y, group=1))
    return Chart(
        name="bounds",
        title=f"Bounds in bits, {_setting(found)}",
        caption="Every bound that has a value in bits. Only an "
        f"{PROVED} is one that no measurement may exceed; the others count other things (exact labels, facts, points "
        "of two classes), or speak of other models: they are scales, not limits. (unmet): an assumption of it is not "
        "met, so the value is another model's or another training's." + told,
        panels=(Panel(x=Axis(label="bits", log=10), y=Axis(label="", names=names), series=tuple(series)),),
    )


def _kind(one: Bound) -> str:
    if one.proved_for_recall:
        return PROVED
    if one.scope == "reference":
        return KINDS[4]
    return {"upper": KINDS[1], "rate": KINDS[3]}.get(one.kind, KINDS[2])


def _label(one: Bound) -> str:
    unmet = any(assumption.met is False for assumption in one.assumptions)
    return f"{one.name} (unmet)" if unmet else one.name


def _told(one: Bound) -> str:
    unmet = [assumption.text for assumption in one.assumptions if assumption.met is False]
    return (
        f"{one.name}: {one.bits:.4g} bits ({one.kind}, {one.standing}); {one.criterion}"
        f"{f'; not met: {chr(59).join(unmet)}' if unmet else ''}"
    )


def _setting(found: Catalogue) -> str:
    count = found.parameters.trainable
    return found.model.words() + ("" if count is None else f", {count} trainable parameters")
