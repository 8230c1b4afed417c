"""What `capax predict` and `capax plan` print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from capax.cli import output
from capax.laws.law import Law
from capax.planning.results import (
    NOT_KNOWN,
    BitsFrontier,
    Frontier,
    Network,
    Prediction,
    Verification,
)
from capax.results import Interval
from capax.text import amount, counted, duration, percent

WORDS = {"n_layers": "layers", "n_heads": "heads", "d_model": "width", "d_head": "head size"}
"""Heads of columns."""
TELLING = 0.1
"""Share of the variance from which it is said what makes an interval wide."""
TABLES = {"frozen": "frozen", "trained": "tied"}


def columns(rows: Sequence[Network], accelerator: str) -> dict[str, list[str]]:
    """What is shown of networks, by its heading."""
    return {
        "layers": [f"{'*' if row.outside else ''}{row.n_layers}" for row in rows],
        "heads": [f"{row.n_heads} of {row.d_head}" for row in rows],
        "width": [str(row.d_model) for row in rows],
        **{name: [str(row.further[name]) for row in rows] for name in (rows[0].further if rows else ())},
        "tables": [TABLES.get(row.embeddings or "", "–") for row in rows],
        **({"weights": [str(row.weights).split()[0] for row in rows]} if any(row.weights for row in rows) else {}),
        "trainable": [amount(row.trainable_parameters) for row in rows],
        "total": [amount(row.total_parameters) for row in rows],
        "size": [amount(row.bytes, "B") for row in rows],
        "bits": [amount(row.bits) for row in rows],
        "expected": [amount(row.memorized) for row in rows],
        "95 % interval": [row.interval.ends(amount) for row in rows],
        "at least": [amount(row.at_least) for row in rows],
        "FLOP": [f"{row.cost.flops:.1e}" for row in rows],
        "time/here": [duration(3600 * row.cost.hours) for row in rows],
        f"time/{accelerator.upper()}": [duration(3600 * row.cost.accelerator_hours) for row in rows],
    }


def _spent(name: str, most: float) -> str:
    """A budget: 10 MB, 1 M parameters, 0.1 hours."""
    return {"bytes": amount(most, "B"), "parameters": f"{amount(most)} parameters"}.get(name, duration(3600 * most))


def show_bits(found: BitsFrontier, items: str) -> None:
    """The question, a row for each family, and how far all that can be trusted."""
    screen, asked = output.console(), dict(found.model_extra or {})
    sizes = ", ".join(f"{name} {value}" for name, value in asked.items())
    spent = [_spent(name, most) for name, most in found.budget if most is not None]
    limits = f"at most {', '.join(spent)}; " if spent else ""
    if found.items is None:
        screen.print(f"How many {items} ({sizes}) can be held? {limits}law: {found.law} ({found.source})")
    else:
        screen.print(
            f"{found.items} {items} ({sizes}) of {amount(found.bits or 0.0, 'bit')}, with probability "
            f"{percent(found.probability)}; {limits}law: {found.law} ({found.source})"
        )
    rows = found.architectures or tuple(filter(None, (found.nearest,)))
    if not found.architectures:
        screen.print("None holds them. The nearest:")
    shown = columns(rows, found.accelerator)
    del shown["total"]
    said = f"expected, interval, at least (the latter with {percent(found.probability)}): {items}"
    show_networks(rows, shown, found.precision, {"expected": said})
    _show_trust(found, rows[0], items)
    output.show_notes(found.notes)


def show_networks(
    rows: Sequence[Network],
    shown: Mapping[str, Sequence[str]],
    precision: str,
    words: Mapping[str, str],
    by: str = "trainable",
) -> None:
    """Columns of networks, what they mean, and which of them a narrow terminal has no room for.

    Args:
        words: what further columns mean, by their heading.
        by: the column that they are sorted by, which is left out last.
    """
    screen, small = output.console(), any(row.weights for row in rows)
    tied = any(TABLES.get(row.embeddings or "") == "tied" for row in rows)
    less = "trainable" if small or by == "size" else "size"  # a plan by bytes is about the size
    times = [name for name in shown if name.startswith("time/")]
    order = ("FLOP", "bits", "total", less, "embeddings", *reversed(times), "95 % interval")
    spare = [name for name in order if name in shown]
    kept = output.show_lines(shown, spare=spare)
    said = {
        **({"layers": "*: outside the law's domain"} if any(row.outside for row in rows) else {}),
        "tables": "tied: the token table is trained, and the read-out is the same" if tied else "",
        "weights": f"weights: {', '.join(dict.fromkeys(str(row.weights) for row in rows))}",
        "size": "size: of the file, of what is trained" if small else f"size: of all parameters as {precision}",
        **words,
    }
    screen.print("; ".join(text for name, text in said.items() if text and name in kept))
    output.tell_narrow(shown, kept)


def _show_trust(found: BitsFrontier, first: Network, items: str) -> None:
    screen = output.console()
    if first.outside:
        screen.print(f"The first lies OUTSIDE the law's domain: {'; '.join(first.outside)}.")
    largest = found.largest_inside
    if found.sure is not None:
        screen.print(f"The smallest of those tried inside the law's domain: {network(found.sure)}.")
    elif largest is not None:
        screen.print(
            f"Inside the law's domain {network(largest)} holds most: {amount(largest.at_least)} {items} with "
            f"{percent(found.probability)}."
        )
    else:
        screen.print("None of those tried lies inside it.")
    if found.measured is not None:
        sizes = ", ".join(f"{name} {value:g}" for name, value in found.measured.sizes.items())
        screen.print(f"The nearest that the law was fitted to holds {amount(found.measured.bits, 'bit')}: {sizes}.")
    widening = {name: share for name, share in found.drivers.items() if share > 0}  # others make up for some of it
    whole = sum(widening.values())
    wide = [f"{name} {share / whole:.0%}" for name, share in widening.items() if share >= TELLING * whole]
    if wide:
        screen.print(f"What makes the interval wide: {', '.join(wide)}.")


def network(one: Network) -> str:
    """A network in a few words."""
    layers = counted(one.n_layers, "layer")
    return f"{layers}, {counted(one.n_heads, 'head')} of {one.d_head}, width {one.d_model}"


def show_verified(found: Verification) -> None:
    """What was measured, of the network itself or of a narrower one."""
    run, expected = found.measurement, found.predicted_bits
    assert run.capacity is not None
    assert expected is not None
    less = [f"width {found.proxy}"]
    less += [counted(found.proxy_n_layers, "layer")] if found.proxy_n_layers else []
    less += [f"{found.proxy_vocab_size} tokens"] if found.proxy_vocab_size else []
    one = "the network"
    if found.proxy is not None:
        one = f"it takes too long here; in its place one of {', '.join(less)}"
    library = run.spec.task.library_size
    held = amount(run.capacity.extrapolated or run.capacity.bits, "bit")
    converged = "" if run.capacity.converged else " (NOT CONVERGED)"
    verdict = f"the promise does not hold: {found.miss_percent or 0.0:.1f} % are missing"
    if found.held is not False:
        verdict = "the promise holds" if found.held else f"whether the promise holds is {NOT_KNOWN}"
    high = "no upper end" if expected.high is None else amount(expected.high, "bit")
    print(
        f"Verified: {one} was measured (protocol capacity, {len(run.members)} trainings on a library of {library}): "
        f"{held}{converged}, where the law expected {amount(expected.low)} to "
        f"{high} and promised {amount(found.promised_bits or 0.0, 'bit')}: {verdict} "
        f"(run {run.key[:12]})."
    )


def show_prediction(found: Prediction, law: Law, items: str) -> None:
    """What a law says of one architecture."""
    screen, interval, sizes = output.console(), found.interval, dict(found.model_extra or {})
    rule, bits = sizes.pop("rule", None), sizes.pop("bits", None)
    screen.print(", ".join(f"{name} {value}" for name, value in sizes.items()))
    falls = f"; a new measurement falls {_between(interval)} with probability {percent(interval.level)}"
    says = f"memorizes about {found.value:.4g} {items}"
    if isinstance(bits, float):
        verb = "know" if "exposures" in sizes else "hold"
        says = f"{verb}s about {amount(bits, 'bit')}, those of {found.value:.4g} {items}"
        if found.value == interval.high:  # no more than there are
            says = f"could {verb} about {amount(bits, 'bit')}, more than all {found.value:.4g} {items} have"
            falls = falls if interval.low < interval.high else ""
    if law.needed_for is not None:
        says = f"needs a {law.target} of about {found.value:.4g}"
    screen.print(f"{says}{falls}")
    if rule is not None:
        screen.print(f"heads: {found.n_heads} of {found.d_head} ({rule})")
    screen.print(f"law: {found.law} ({found.source})")
    if found.inside_domain:
        screen.print(f"inside its domain: {found.domain.in_words()}")
    else:
        screen.print(f"OUTSIDE its domain: {'; '.join(found.outside)}")
    output.show_notes(found.notes)


def _between(interval: Interval) -> str:
    if interval.high is None:
        return f"above {interval.low:.4g} (no upper end)"
    return f"between {interval.low:.4g} and {interval.high:.4g}"


def show_plan(found: Frontier, items: str) -> None:
    """Architectures of a plan by a law of counts, with what a step adds."""
    screen, asked = output.console(), dict(found.model_extra or {})
    target = found.items
    sizes = ", ".join(f"{name} {value}" for name, value in asked.items())
    screen.print(
        f"{target} {items} ({sizes}), with probability {percent(found.probability)}; law: {found.law} ({found.source})"
    )
    rows = found.architectures or tuple(filter(None, (found.nearest,)))
    if not found.architectures:
        screen.print(f"None that was tried holds them (the law's domain: {found.domain.in_words()}). The nearest:")
    names = [name for name in rows[0].model_extra or {} if not name.startswith("gain_of_")]
    gains = [name for name in rows[0].model_extra or {} if name.startswith("gain_of_")]
    gains = [name for name in gains if any(getattr(row, name) is not None for row in rows)]
    columns = {
        **{WORDS.get(name, name): [str(getattr(row, name)) for row in rows] for name in names},
        "trainable": [str(row.trainable_parameters) for row in rows],
        "total": [str(row.total_parameters) for row in rows],
        "size": [amount(row.bytes, "B") for row in rows],
        "expected": [f"{row.memorized:.0f}" for row in rows],
        "at least": [f"{row.at_least:.0f}" for row in rows],
        "tokens/par.": [_few(row.tokens_per_parameter) for row in rows],
        **{_more(name): [_few(getattr(row, name)) for row in rows] for name in gains},
    }
    if rows[0].tokens_per_parameter is None:
        del columns["tokens/par."]
    kept = output.show_lines(columns, spare=("size", "total", "tokens/par.", WORDS.get(names[0], names[0])))
    steps = ", ".join(map(_more, gains))
    words = {
        "trainable": "trainable, total: parameters" if "total" in kept else "trainable: parameters",
        "size": f"size: of all of them as {found.precision}",
        "expected": f"expected, at least: {items} (the latter with {percent(found.probability)})",
        **(
            {_more(gains[0]): f"{steps}: {items} per 1000 trainable parameters that one step more adds"}
            if gains
            else {}
        ),
    }
    screen.print("; ".join(text for name, text in words.items() if name in kept))
    output.show_notes(found.notes)


def _more(gain: str) -> str:
    return f"+{gain.removeprefix('gain_of_').replace('_', ' ')}"


def _few(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


def show_verification(plan: Frontier) -> None:
    """What was measured of the architecture of a plan."""
    assert plan.verification is not None
    found = plan.verification
    run = found.measurement
    if run.capacity is not None and found.predicted_bits is not None:
        show_verified(found)
        return
    what = f"{run.memorized} of {run.library_size} memorized"
    if found.held:
        print(f"Verified: it holds: {what} (run {run.key[:12]}).")
    else:
        print(f"Verified: it does not hold: {what}, a miss of {found.miss_percent:.1f} % (run {run.key[:12]}).")
