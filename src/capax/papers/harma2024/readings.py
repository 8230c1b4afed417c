"""Claims on the grid in all their readings: whether counts have guesses, and which widths are kept, is not known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import wraps

from capax.errors import CapaxError
from capax.papers import evidence as ev
from capax.papers.evidence import field
from capax.papers.recipe import Evidence, Verdict
from capax.results import Measurement

OURS = "above chance"
"""Our reading: counts less what luck recalls, of networks that recall more than that."""


def in_every_reading(judge: Callable[[Evidence], Verdict]) -> Callable[[Evidence], Verdict]:
    """A judge whose verdict stands only where no reading has another.

    One that cannot be had (too few networks for it) takes nothing away, and the reason says so; one that cannot be
    judged by those that there are does.
    """

    @wraps(judge)
    def judged(of: Evidence) -> Verdict:
        first = judge(of)
        if first.answer == "cannot be judged":
            return first
        others, missing = {}, []
        for name, reading in _others(of):
            try:
                others[name] = judge(reading)
            except CapaxError as error:  # of too few networks there is no verdict, or no law
                missing.append(f"{name} it cannot be judged: {error}")
        if any(other.answer != first.answer for other in others.values()):
            return ev.whatever("whether guesses count, and on the widths that are kept", {OURS: first, **others})
        reason = "; ".join([first.reason, *([f"also {' and '.join(others)}"] if others else []), *missing])
        return Verdict(answer=first.answer, measured=first.measured, reason=reason)

    return judged


def refuted_in_every_reading(judge: Callable[[Evidence], Verdict]) -> Callable[[Evidence], Verdict]:
    """The same of a claim on a power, which counts with guesses in them cannot follow: it agrees by our reading."""

    @wraps(judge)
    def judged(of: Evidence) -> Verdict:
        first = judge(of)
        return first if first.answer == "agrees" else in_every_reading(judge)(of)

    return judged


def _others(of: Evidence) -> Iterator[tuple[str, Evidence]]:
    """With all that was recalled; and without networks that are narrower than a head, which use a part of it."""
    yield "with guesses", replace(of, runs=tuple(map(_with_guesses, of.runs)))
    wide = tuple(run for run in of.runs if field(run, "d_model") >= field(run, "d_head"))
    if 0 < len(wide) < len(of.runs):
        narrowest = min(field(run, "d_model") for run in wide)
        yield f"from a width of {narrowest} on", replace(of, runs=wide)


def _with_guesses(run: Measurement) -> Measurement:
    """With counts that luck is a part of."""
    counted = {"chance": 0.0, "memorized_above_chance": float(run.memorized), "above_chance": run.memorized > 0}
    return run.model_copy(update=counted)
