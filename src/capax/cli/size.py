"""`capax size`: a config of Hugging Face, what it holds, and whether facts fit into it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from capax.cli import output
from capax.cli.flags import Json
from capax.cli.plan_facts import in_words
from capax.errors import SpecError
from capax.inputs import regular
from capax.planning.answers import SUREST
from capax.planning.size import ASKED_OF_CURVE, Asked, ModelSize, fewest_exposures, model_size
from capax.specs import Facts
from capax.specs.facts import Ambiguous
from capax.text import amount, counted, duration


def size(
    config: Path,
    /,
    *,
    facts: Path | None = None,
    bits: float | None = None,
    key: str | None = None,
    relation: str | None = None,
    answer: str | None = None,
    ambiguous: Ambiguous | None = None,
    recall: float | None = None,
    probability: float | None = None,
    tokens: int | None = None,
    as_json: Json = False,
) -> None:
    """What a config of Hugging Face means: parameters, bytes, bits that it holds, and whether facts fit.

    Nothing is trained or downloaded, and no weights are needed.

    Parameters
    ----------
    config
        A config.json, or a folder with one.
    facts
        A file of facts that it is to hold.
    bits
        Bits that it is to hold, in place of facts.
    key
        Column of the facts' key.
    relation
        Column of the relation.
    answer
        Column of the answer.
    ambiguous
        What is done with keys and relations that have several answers. [default: refuse]
    recall
        Share of the facts that is to be recalled. [default: 0.99]
    probability
        Probability from which they are said to fit. [default: 0.9]
    tokens
        Tokens of all facts, or bits, shown once. [default: 4 bytes of the facts' text each, or one a bit]
    """
    columns: Mapping[str, Any] = {"key": key, "relation": relation, "answer": answer, "ambiguous": ambiguous}
    given = {name: value for name, value in columns.items() if value is not None}
    if facts is None and given:
        raise SpecError(f"{next(iter(given))}: only with --facts")
    if facts is not None:
        regular(facts, "facts", SpecError)
    task = None if facts is None else Facts(library=str(facts), tokenization="words", **given)
    found = model_size(config, facts=task, bits=bits, recall=recall, probability=probability, tokens=tokens)
    output.emit(found, _show, as_json=as_json)


def _show(found: ModelSize) -> None:
    screen, counts = output.console(), found.parameters
    screen.print(f"{found.config}: {found.kind} ({found.architecture}){_shape(found)}")
    parts = [f"{counts.total:,} parameters"]
    if counts.experts is not None:
        active = "not known how many" if counts.active is None else f"{counts.active:,}"
        chosen = "?" if counts.experts_per_token is None else counts.experts_per_token
        parts.append(f"{active} of them active ({chosen} of {counts.experts} experts)")
    tied = ", the read-out is the token table" if counts.tied else ""
    parts.append(f"{counts.embedding_share:.1%} in tables and read-out{tied}")
    screen.print("; ".join(parts))
    screen.print(", ".join(f"{amount(size, 'B')} as {name}" for name, size in found.bytes.items()))
    screen.print()
    _show_densities(found)
    if found.outside:
        screen.print(f"It lies OUTSIDE the domain of the law of capacity: {'; '.join(found.outside)}.")
    exposed = ", ".join(f"{one.share:.0%} after {one.exposures:,.0f}" for one in found.exposures)
    screen.print(
        f"Exposures until a share of what it can hold is known, by the law of exposures{_of(found)}: {exposed}"
    )
    if found.asked is not None:
        screen.print()
        first = found.asked.exposures == fewest_exposures()  # fewer may do
        _show_asked(found.asked, "" if found.exposures_of is None or first else "at least ")
    output.show_notes(found.notes)


def _of(found: ModelSize) -> str:
    """Which network's exposures they are, where they are not the model's own."""
    if found.exposures_of is None:
        return ""
    parameters, layers = (found.exposures_of[name] for name in ASKED_OF_CURVE)
    return f", at least those of the nearest network that it knows ({parameters:,.0f} parameters, {layers:g} layers)"


def _shape(found: ModelSize) -> str:
    shape, parts = found.shape, []
    if shape.n_layers is not None:
        parts.append(counted(shape.n_layers, "layer"))
    if shape.n_heads is not None and shape.n_kv_heads is not None:
        shared = f" ({shape.n_kv_heads} of keys and values)" if shape.n_kv_heads != shape.n_heads else ""
        parts.append(f"{counted(shape.n_heads, 'head')} of {shape.d_head}{shared}")
    parts += [f"width {shape.d_model}"] * (shape.d_model is not None)
    parts += [f"vocabulary {shape.vocab_size}"] * (shape.vocab_size is not None)
    return "".join(f", {part}" for part in parts)


def _show_densities(found: ModelSize) -> None:
    rows = found.densities
    columns: dict[str, list[str]] = {
        "density": [one.name for one in rows],
        "exposures": ["–" if one.exposures is None else str(one.exposures) for one in rows],
        "bits/par.": [f"{one.bits_per_parameter:.3g}" for one in rows],
        "bits": [amount(one.bits) for one in rows],
        "range": [_range(one.low, one.high) for one in rows],
        "used": ["–" if one.used is None else _share(one.used) for one in rows],
        "standing": [one.standing for one in rows],
        "source": [one.source.partition(", ")[2] or one.source for one in rows],
    }
    if found.asked is None:
        del columns["used"]
    kept = output.show_lines(
        columns, words=("density", "standing", "source"), spare=("source", "standing", "exposures")
    )
    words = {
        "bits": "bits: that it holds",
        "range": "range: the law's 95 % interval; the bounds, or smallest and largest network, of what was published",
        "used": "used: share of these bits that is asked",
        "exposures": "exposures: –: until it converged, or (Morris et al.) a million steps",
    }
    output.console().print("; ".join(text for name, text in words.items() if name in kept))
    output.tell_narrow(columns, kept)


def _range(low: float | None, high: float | None) -> str:
    if low is None:
        return "–" if high is None else f"up to {amount(high)}"
    return f"at least {amount(low)}" if high is None else f"{amount(low)} to {amount(high)}"


def _share(value: float) -> str:
    return _times(value) if value >= 10 else f"{value:.1%}" if value >= 1e-3 else "< 0.1%"


def _times(value: float) -> str:
    return f"{amount(value)}×" if value >= 1e6 else f"{value:,.0f}×" if value >= 100 else f"{value:.3g}×"


def _show_asked(asked: Asked, least: str) -> None:
    screen = output.console()
    if asked.facts is not None:
        for line in in_words(asked.facts):
            screen.print(line)
    what = "" if asked.recall is None else f", {asked.recall:.6g} of the facts recalled"
    chance = f"{asked.probability:.1%}"
    if not 1 - SUREST < asked.probability < SUREST:
        chance = f"above {SUREST:.1%}" if asked.probability > 0.5 else f"below {1 - SUREST:.1%}"
    screen.print(
        f"{amount(asked.bits, 'bit')}{what}: held with probability {chance} by the law, where "
        f"{100 * asked.wanted:.6g}% is wanted: {'it fits' if asked.fits else 'IT DOES NOT FIT'}."
    )
    if asked.times_packed is not None:
        times = ", ".join(f"{_times(times)} as {name}" for name, times in asked.times_packed.items())
        screen.print(f"The weights by the packed facts: {times}.")
    if asked.flops is not None and asked.accelerator_hours is not None:
        hours = ", ".join(f"{name.upper()} {_time(3600 * each)}" for name, each in asked.accelerator_hours.items())
        shown = counted(asked.exposures or 0, "exposure")
        screen.print(
            f"Its training, until these bits are expected to be known: {least}{shown}, {asked.flops:.2g} FLOP: {hours}."
        )


def _time(seconds: float) -> str:
    return "under a second" if seconds < 1 else duration(seconds)
