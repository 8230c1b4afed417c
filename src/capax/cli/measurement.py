"""What the command line shows of a measurement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from capax.cli import output
from capax.results import Breakdown, CapacityEstimate, Interval, KeyDimensionSearch, Measurement, Search
from capax.results.luck import SIGNIFICANCE
from capax.results.overview import ended as ended
from capax.results.overview import parameters, trained
from capax.results.overview import setting as setting
from capax.text import counted, duration, ranges

if TYPE_CHECKING:
    from capax.protocols.progress import Progress
    from capax.specs import Run


def show(run: Measurement) -> None:
    """Print a measurement as a table, with how it was measured."""
    spec = run.spec
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, value in _rows(run):
        table.add_row(name, value)
    screen = output.console()
    screen.print(f"{setting(spec)}; protocol {spec.protocol.protocol}, seed {spec.seed}")
    screen.print(table)


def about(run: Run, state: Progress) -> str:
    """What is measured, and how long it is likely to take, when it has just begun."""
    what = f"{setting(run)}; {run.protocol.words()}"
    if state.epochs == 0:
        return what
    rows = run.task.learned_rows(run.task.library_size, run.model)
    budget, usual = run.training.budget(rows), run.training.usual_steps(rows)
    a_step = state.seconds * state.total / (state.epochs * run.training.steps_per_epoch(rows))
    often = f"often {duration(usual * a_step)}"
    if budget is None:
        return f"{what}; {often}"
    most = f"{'at most' if run.protocol.one_library else 'about'} {duration(budget * a_step)}"
    each = " for each library" if run.protocol.follows else ""
    return f"{what}; {f'{often}, ' if usual < budget else ''}{most}{each}"


def _rows(run: Measurement) -> list[tuple[str, str]]:
    protocol, counts = run.spec.protocol, run.memorized_per_restart
    each = f" (restarts: {', '.join(map(str, counts))})" if protocol.one_library and len(counts) > 1 else ""
    all_of_it = ", all that can be recalled" if run.whole and run.recallable < run.library_size else ""
    rows = [
        *([] if run.capacity is None else _capacity_rows(run.capacity)),
        *_unconverged(run),
        (protocol.counted, f"{run.memorized} of {run.library_size}{all_of_it}{each}"),
        ("chance", _chance(run)),
    ]
    if run.interval is not None:
        rows.append(("interval", _range(run.interval)))
    if isinstance(run.search, Search):
        sure = run.search.largest_sure
        rows.append(
            ("search", f"{len(run.members)} trainings; every one succeeded up to {'no size' if sure is None else sure}")
        )
    if run.shatter is not None:
        rows += _shatter_rows(run)
    if run.key_search is not None:
        rows += _key_dimension_rows(run.key_search)
        if run.key_search.reached_by == "built" and run.trained_channel is not None:
            n_heads, d_head = run.trained_channel
            rows.append(("trained", f"{n_heads} x {d_head}: F1, bits and parameters are of this channel"))
    rows += [(name.replace("_", " "), f"{value:.4g}") for name, value in run.metrics.items()]
    rows += _group_rows(run.breakdown, run.epochs)
    rows += _unit_rows(run)
    if run.bits_per_item is not None and run.bits_per_item != run.bits_per_item_uniform:
        guess = f"{run.bits_per_item_uniform:.4g} of a uniform guess"
        rows.append(("bits per item", f"{run.bits_per_item:.4g}, the entropy of the targets; {guess}"))
    rows += [
        ("parameters", _parameters(run)),
        ("training", trained(run)),
    ]
    diverged = sum(member.stop_reason == "diverged" for member in run.members)
    if diverged:
        rows.append(("diverged", f"{diverged} of {len(run.members)} trainings"))
    if run.unreachable:
        targets = f"{counted(len(run.unreachable), 'target')}: {ranges(run.unreachable)}"
        rows.append(("unreachable", f"the frozen read-out can never give {targets}"))
    rows += [("note", note) for note in run.notes]
    rows += [("name", run.name)] if run.name else []
    rows += [("tags", ", ".join(run.tags))] if run.tags else []
    rows.append(("key", run.key[:12]))
    return rows


UNCONVERGED = {"budget": "at its budget", "plateau": "on a plateau"}
LAST = 0.1
"""Share of a training, its end, over which it is said how much the loss still fell."""


def _unconverged(run: Measurement) -> list[tuple[str, str]]:
    """That the best of some restarts is no capacity where it ended before it recalled all that can be."""
    if run.spec.protocol.protocol != "mac" or run.stop_reason not in UNCONVERGED or run.whole:
        return []
    curve = max(run.members, key=lambda member: member.memorized).curve
    losses = [(epoch, loss) for epoch, loss in zip(curve.epoch, curve.loss, strict=True) if loss is not None]
    end = curve.epoch[-1]
    before = [(epoch, loss) for epoch, loss in losses if epoch < end and epoch <= (1 - LAST) * end]
    fell = ""
    if before and before[-1][1] > 0:
        since, loss = before[-1]
        drop = 1 - losses[-1][1] / loss
        span = "over its last tenth" if since >= (1 - 1.5 * LAST) * end else f"since epoch {since} of {end}"
        fell = f"; its loss {'fell' if drop >= 0 else 'rose'} {abs(drop):.1%} {span}"
    instead = "; `--protocol capacity` measures what the model can hold" if run.spec.task.has_probabilities else ""
    reached = f"ended {UNCONVERGED[run.stop_reason]}: a count of what this training reached{fell}{instead}"
    return [("not a capacity", reached)]


def _chance(run: Measurement) -> str:
    """What luck recalls, by guesses and by a constant answer, and what is above it."""
    both = ""
    if run.chance_constant is not None:
        both = f" (guesses {run.chance_uniform:.4g}, one constant answer {run.chance_constant:.4g})"
    p = run.chance_p or 0.0
    shown = f"p {'< 1e-16' if p < 1e-16 else f'{p:.2g}'}"
    above = f"{run.memorized_above_chance:.4g} above chance ({shown})"
    if not run.above_chance:
        above = f"not significantly above chance ({shown}, not below {SIGNIFICANCE})"
    return f"{run.chance:.4g} by luck{both}; {above}"


MOSTLY = 0.5
"""Share of the parameters from which it is said that they are tables of tokens."""


def _parameters(run: Measurement) -> str:
    share = run.spec.model.table_parameters(**run.spec.task.sizes()) / run.parameters.total
    tables = f"; {share:.0%} of all are tables of tokens" if share > MOSTLY else ""
    return f"{parameters(run)}{tables}"


def _capacity_rows(found: CapacityEstimate) -> list[tuple[str, str]]:
    """What a model can hold; where it did not converge, that first."""
    reached = f"{found.bits:.4g} bits known of {found.library_bits:.4g}"
    gained = "" if found.last_gain is None else f"; the last cycle added {found.last_gain:.1%}"
    if found.extrapolated is None or found.interval is None:
        why = " (no less than the one before, or of fewer than three)" if gained else ""
        rows = [("capacity", f"not converged: at least {reached}{gained}{why}")]
    else:
        rows = [
            ("capacity", f"{found.extrapolated:.4g} bits; {_range(found.interval)}"),
            ("reached", f"{reached}{gained}"),
        ]
    per = {
        "effective": found.per_effective_parameter,
        "trainable": found.per_trainable_parameter,
        "any": found.per_parameter,
    }
    density = ", ".join(f"{value:.3g} per {what}" for what, value in per.items() if value is not None)
    least = "at least " if found.extrapolated is None else ""
    rows.append(("density", f"{least}{density.replace(' per', ' bits per', 1)} parameter"))
    if len(found.library_sizes) > 1:
        rows.append(
            ("libraries", f"of {', '.join(map(str, found.library_sizes))} items in turn, until it held only part")
        )
    return rows


MOST_GROUPS = 6


def _group_rows(found: Breakdown | None, epochs: int) -> list[tuple[str, str]]:
    """What is recalled of each group, the largest first, and one of those that are missed most."""
    if found is None:
        return []
    rows = []
    for by in dict.fromkeys(group.by for group in found.groups):
        groups = [group for group in found.groups if group.by == by]
        if len(groups) > 1:
            said = [
                f"{group.of}{': ' if by != 'relation' else ' '}{group.recalled} of {group.items}"
                + ("" if group.weight is None else f" ({epochs * group.weight:.3g} exposures)")
                for group in groups[:MOST_GROUPS]
            ]
            rows.append((by.replace("_", " "), "; ".join(said) + ("; …" if len(groups) > MOST_GROUPS else "")))
    return [*rows, *([("missed most", found.missed[0])] if found.missed else [])]


UNITS = {
    "tokens": "tokens",
    "bits": "bits",
    "morris_bits": "bits (Morris)",
    "allen_zhu_bits": "bits (Allen-Zhu)",
}


LONGER = "below 0: it codes items in more bits than a guess does"
LESS = {"bits": "below 0: fewer than luck recalls"}
"""What an amount below zero means."""


def _unit_rows(run: Measurement) -> list[tuple[str, str]]:
    """Each definition: how much, its range, and per parameter."""
    rows = []
    for unit in run.units:
        if unit.name in UNITS:
            spread = "" if unit.interval is None else f" ({unit.interval.ends()})"
            less = f"; {LESS.get(unit.name, LONGER)}" if unit.amount < 0 else ""
            rows.append(
                (
                    UNITS[unit.name],
                    f"{unit.amount:.4g}{spread}; {unit.per_trainable_parameter:.3g} per trainable, "
                    f"{unit.per_parameter:.3g} per any parameter{less}",
                )
            )
    return rows


def _key_dimension_rows(search: KeyDimensionSearch) -> list[tuple[str, str]]:
    rows = []
    if search.total_key_dim is None:
        rows.append(("key dimension", "no head size up to the width is enough"))
    else:
        range_ = "" if search.interval is None else f"; {_range(search.interval)}"
        how = "built, not reached by training" if search.reached_by == "built" else "reached by training"
        rows.append(("key dimension", f"{search.total_key_dim}: {search.n_heads} x {search.d_head}, {how}{range_}"))
    if search.built is not None and search.reached_by != "built":
        built = search.built
        rows.append(("built", f"{built.total_key_dim}: {built.n_heads} x {built.d_head}, weights without training"))
    for count in search.per_heads:
        enough = (
            "no head size is enough"
            if count.total_key_dim is None
            else f"{count.n_heads} x {count.d_head} = {count.total_key_dim}"
        )
        rows.append(
            (
                counted(count.n_heads, "head"),
                f"{enough} ({count.interval.ends()}), F1 {count.f1:.3f}, {count.trainings} trainings",
            )
        )
    return rows


def _shatter_rows(run: Measurement) -> list[tuple[str, str]]:
    assert run.shatter is not None
    shatter, fit = run.shatter, run.shatter.fit
    trials = len(shatter.epochs) + len(shatter.censored)
    rows = [("completed", f"{len(shatter.epochs)} of {trials} trials; {_range(shatter.completed_share)}")]
    if shatter.median is not None:
        rows.append(("epochs", f"median {shatter.median:g}, {min(shatter.epochs)} to {max(shatter.epochs)}"))
    if fit is not None:
        low, high = fit.r_interval
        rows.append(
            (
                "neg. binomial",
                f"r {fit.r} ({low:g} to {high:g}), p {fit.p:.4g} ({fit.p_interval[0]:.4g} to {fit.p_interval[1]:.4g}); "
                f"largest distance to the data {fit.distance:.3f}",
            )
        )
    return rows


def _range(interval: Interval) -> str:
    return f"{interval.ends()} ({interval.level:.0%}: {interval.of})"
