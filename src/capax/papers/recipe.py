"""What a reproduction is made of: studies to run, claims of a paper, and verdicts on them that can fail."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from capax.errors import CapaxError
from capax.laws.law import Law
from capax.results import Measurement, Result
from capax.specs import Run

Scale = Literal["demo", "small", "paper"]
SCALES: tuple[Scale, ...] = ("demo", "small", "paper")

Answer = Literal["agrees", "differs", "cannot be judged"]
Standing = Literal["read", "secondary", "derived", "reconstructed", "ours"]
STANDINGS: dict[Standing, str] = {
    "read": "stated in the paper or in its authors' code",
    "secondary": "stated by those who restate the paper",
    "derived": "computed from what the paper states",
    "reconstructed": "in no source; a reading that fits what is stated",
    "ours": "in no paper; a value or an expectation of ours",
}


class Unjudged(CapaxError):
    """A claim cannot be judged from what was measured; the message is the reason."""


class Verdict(Result):
    """What was found of one claim."""

    answer: Answer
    measured: Annotated[str | None, Field(description="The number it rests on, with its interval; None without one.")]
    reason: Annotated[str, Field(description="Why: the test and its threshold, or what is missing.")]


@dataclass(frozen=True)
class Evidence:
    """What a claim is judged by: the measurements of its recipe's study, and the scale they were made at."""

    runs: tuple[Measurement, ...]
    scale: Scale


@dataclass(frozen=True)
class Claim:
    """One thing that a paper says.

    Attributes:
        says: it, in a sentence.
        value: the number, as the paper has it; None where there is none, or none is known to us.
        standing: how we know (`STANDINGS`).
        judge: from the measurements to the verdict; raises `Unjudged`.
        scaled: whether other sizes than the paper's may be why a verdict differs; not of arithmetic.
    """

    says: str
    value: str | None
    standing: Standing
    judge: Callable[[Evidence], Verdict]
    scaled: bool = True


@dataclass(frozen=True)
class Study:
    """Runs that one or several figures are made of.

    Attributes:
        runs: at each scale.
        seconds: expected on two cores, by scale: of demo and small as a whole call took, of paper from timed steps,
            which tell little where trainings end at a plateau.
        law: the paper's, which is fitted to the runs, drawn beside them and planned with.
    """

    name: str
    runs: Mapping[Scale, tuple[Run, ...]]
    seconds: Mapping[Scale, float]
    law: Law | None = None


@dataclass(frozen=True)
class Recipe:
    """One figure, table or theorem of a paper.

    Attributes:
        figure: what the command line calls it.
        study: what is run; None for what is computed at once.
        claims: what the paper says there.
        command: what judges it on the user's own data, where ours cannot.
        chart: the figure of capax that shows its runs (`reports.registry.FIGURES`); None where there is nothing to
            draw.
    """

    paper: str
    figure: str
    title: str
    claims: tuple[Claim, ...]
    study: Study | None = None
    command: str | None = None
    chart: str | None = None

    def runs(self, scale: Scale) -> tuple[Run, ...]:
        """What is to be measured for it."""
        return () if self.study is None else self.study.runs[scale]

    def seconds(self, scale: Scale) -> float:
        """Expected time of its runs alone."""
        return 0.0 if self.study is None else self.study.seconds[scale]

    def of(self, found: Mapping[str, Measurement], scale: Scale) -> tuple[Measurement, ...]:
        """Its runs, of those (by key) that are there."""
        return tuple(found[run.key()] for run in self.runs(scale) if run.key() in found)

    def judge(self, found: Mapping[str, Measurement], scale: Scale) -> tuple[Verdict, ...]:
        """A verdict for each claim, by the measurements of its runs (by key) that are there."""
        runs = self.of(found, scale)
        missing = len(self.runs(scale)) - len(runs)
        return tuple(_verdict(claim, Evidence(runs, scale), missing) for claim in self.claims)


def _verdict(claim: Claim, evidence: Evidence, missing: int) -> Verdict:
    if missing and not evidence.runs:
        return cannot("none of its runs was finished")
    try:
        found = claim.judge(evidence)
    except CapaxError as error:
        found = cannot(str(error))
    notes = []
    if found.answer == "differs" and evidence.runs and claim.scaled and evidence.scale != "paper":
        notes.append(f"sizes and training of the {evidence.scale} scale are not the paper's")
    if missing:
        notes.append(f"{missing} of its runs are missing")
    return found.model_copy(update={"reason": f"{found.reason} ({'; '.join(notes)})"}) if notes else found


def cannot(reason: str, measured: str | None = None) -> Verdict:
    """Cannot be judged, and why."""
    return Verdict(answer="cannot be judged", measured=measured, reason=reason)


def unknown(reason: str) -> Callable[[Evidence], Verdict]:
    """The judge of a claim that nothing of ours can judge."""
    return lambda _: cannot(reason)
