"""A reproduction's parts: studies to run, claims of a paper, and verdicts on them; and the recipes that there are.

Each paper is a folder: `recipes.toml` has its figures and claims, `studies/NAME-SCALE.toml` the runs behind them (study
files, as `capax sweep` reads them), and Python modules the functions that judge a claim.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ImportString, model_validator

from capax.errors import CapaxError, SpecError
from capax.inputs import package_folder
from capax.results import Measurement, Result, Standing
from capax.specs import Run
from capax.sweeps.grid import combinations, read_study

Scale = Literal["demo", "small", "paper"]
SCALES: tuple[Scale, ...] = ("demo", "small", "paper")
PAPERS = {
    name: Path(__file__).parent / name
    for name in (
        *("harma2024", "mahdavi2024", "adler2025", "morris2025", "allenzhu2024", "changalidis2025"),
        "lora2026",
    )
}
"""The folder of each paper, by the paper's name."""

Answer = Literal["agrees", "differs", "cannot be judged"]
STANDINGS: dict[Standing, str] = {
    "read": "stated in the paper, in its authors' code, or on a page that quotes the paper",
    "secondary": "stated by those who restate the paper",
    "derived": "computed from what the paper states",
    "reconstructed": "in no source; a reading that fits what is stated",
    "ours": "in no paper; a value, an expectation or a finding of ours",
}


class Unjudged(CapaxError):
    """A claim cannot be judged from what was measured; the message is the reason."""


class Verdict(Result):
    """What was found of one claim."""

    answer: Answer
    measured: Annotated[str | None, Field(description="The number it rests on, with its interval; None without one.")]
    reason: Annotated[str, Field(description="Why: the test and its threshold, or what is missing.")]


def agrees(reason: str, measured: str | None = None) -> Verdict:
    """The measurements show what the paper says."""
    return Verdict(answer="agrees", measured=measured, reason=reason)


def differs(reason: str, measured: str | None = None) -> Verdict:
    """The measurements show the contrary."""
    return Verdict(answer="differs", measured=measured, reason=reason)


def cannot(reason: str, measured: str | None = None) -> Verdict:
    """The claim cannot be judged."""
    return Verdict(answer="cannot be judged", measured=measured, reason=reason)


@dataclass(frozen=True)
class Evidence:
    """What a claim is judged by: the measurements of its recipe's study, and the scale they were made at.

    Attributes:
        store: where they are kept, with their weights where the study keeps them; None where they are in no store.
    """

    runs: tuple[Measurement, ...]
    scale: Scale
    store: Path | None = None


Judge = Callable[[Evidence], Verdict]

Kind = Literal["the paper's", "by arithmetic", "ours", "a self-check"]
KINDS: dict[Kind, str] = {
    "the paper's": "What the paper says",
    "by arithmetic": "What follows from arithmetic or a proof, whatever is measured: not counted",
    "ours": "Ours: what we expect, and readings that no source states",
    "a self-check": "Self-checks: only a fault in capax would differ, so they say nothing of the paper",
}
"""What a claim is, and what a list of such claims is called."""


class Claim(Result):
    """One thing that a paper says, or that we say beside it.

    Attributes:
        says: the claim, in a sentence.
        value: its number: the source's where the standing is read or secondary, else computed or chosen by us; None
            where there is none, or none is known to us.
        standing: how we know it (`STANDINGS`).
        judge: from the measurements to the verdict; raises `Unjudged`. In TOML the function's full name.
        unjudged: why nothing of ours can judge it, where there is no judge.
        scaled: whether a verdict may come from other sizes than the paper's; not of arithmetic.
        changes: what would change the verdict.
        arithmetic: whether arithmetic or a proof settles it, so that no measurement could come out otherwise.
        self_check: whether it would differ only if capax itself were wrong: its verdict says nothing of the paper.
    """

    says: str
    value: str | None = None
    standing: Standing
    judge: ImportString[Judge] | None = None
    unjudged: str | None = None
    scaled: bool = True
    changes: str | None = None
    arithmetic: bool = False
    self_check: bool = False

    @model_validator(mode="after")
    def _judged_or_not(self) -> Claim:
        if (self.judge is None) == (self.unjudged is None):
            raise ValueError(f"judge: either it or unjudged is given, of {self.says!r}")
        return self

    @property
    def kind(self) -> Kind:
        """The paper's; by arithmetic, whoever says it; ours, as is a reading that no source states; or a self-check."""
        if self.self_check:
            return "a self-check"
        if self.arithmetic:
            return "by arithmetic"
        return "ours" if self.standing in ("ours", "reconstructed") else "the paper's"

    def verdict(self, evidence: Evidence, missing: int) -> Verdict:
        """The verdict on the runs that are there, with a note on those that are missing."""
        if self.judge is None or (missing and not evidence.runs):
            return cannot(self.unjudged or "none of its runs was finished")
        try:
            found: Verdict = self.judge(evidence)
        except CapaxError as error:
            found = cannot(str(error))
        notes = []
        judged = found.answer != "cannot be judged" and not self.self_check
        if judged and evidence.runs and self.scaled and evidence.scale != "paper":
            notes.append(f"sizes and training of the {evidence.scale} scale are not the paper's")
        if missing:
            notes.append(f"{missing} of its runs are missing")
        return found.model_copy(update={"reason": f"{found.reason} ({'; '.join(notes)})"}) if notes else found


class ScaledStudy(Result):
    """A study at every scale: runs that one or several figures are made of.

    Attributes:
        name: what the paper's recipes call it.
        folder: where its files are.
        files: study files without their scale, where it is not one of its own name.
        seconds: expected on two cores, by scale: of demo and small as a whole call took, of paper from timed steps,
            which tell little where trainings end at a plateau. At a scale that is missing nothing is run.
        left_out: why, where a scale is missing.
        keep_weights: whether its claims are judged by what was trained, too; its runs are then made one by one.
        packages: what its files lie in, by the name that pip has; without them nothing is run.
        library: the model of a library that it needs (`LibraryModel`); without the library nothing is run. In TOML its
            full name.
        law: the paper's law (`Law`), which is fitted to the runs, drawn beside them and planned with. In TOML its full
            name.
    """

    name: str
    folder: Path
    files: tuple[str, ...] = ()
    seconds: dict[Scale, float]
    left_out: str | None = None
    keep_weights: bool = False
    packages: dict[str, str] = Field(default_factory=dict)
    library: ImportString[Any] = None
    law: ImportString[Any] = None

    @property
    def missing(self) -> str | None:
        """What has to be installed before anything is run; None where all is there."""
        absent = [known for known, name in self.packages.items() if package_folder(name) is None]
        if absent:
            return f"it reads files of packages that are not installed: pip install {' '.join(absent)}"
        if self.library is None:
            return None
        try:
            self.library.installed()
        except SpecError as error:
            return str(error)
        return None

    def why_none(self, scale: Scale) -> str | None:
        """Why nothing is run at a scale; None where something is."""
        return (self.left_out or "no study") if scale not in self.seconds else self.missing

    def runs(self, scale: Scale) -> tuple[Run, ...]:
        """The runs at a scale; none where it is left out, or a library is missing."""
        if self.why_none(scale) is not None:
            return ()
        return tuple(run for file in self._files(scale) for run in _runs(file))

    def count(self, scale: Scale) -> int:
        """How many runs it has at a scale, whatever is installed; no combination of a paper's study repeats another."""
        return sum(combinations(file) for file in self._files(scale)) if scale in self.seconds else 0

    def _files(self, scale: Scale) -> list[Path]:
        return [self.folder / f"{file}-{scale}.toml" for file in self.files or (self.name,)]


@cache
def _runs(path: Path) -> tuple[Run, ...]:
    return read_study(path).runs


class Recipe(Result):
    """One figure, table or theorem of a paper.

    Attributes:
        figure: what the command line calls it.
        claims: what the paper says there.
        study: what is run; None for what is computed at once.
        command: what judges it on the user's own data, where ours cannot.
        chart: the figure of capax that shows its runs; None where there is nothing to draw.
        rival: from the runs to a law that the figure is drawn with once more, beside the paper's. In TOML the
            function's full name.
        at_each_call: the expected seconds of what its judges train themselves, at the scales where they take long.
    """

    paper: str
    figure: str
    title: str
    claims: tuple[Claim, ...]
    study: ScaledStudy | None = None
    command: str | None = None
    chart: str | None = None
    rival: ImportString[Callable[[Sequence[Measurement]], Any]] | None = None
    at_each_call: dict[Scale, float] = Field(default_factory=dict)

    def runs(self, scale: Scale) -> tuple[Run, ...]:
        """What is to be measured for it."""
        return () if self.study is None else self.study.runs(scale)

    def count(self, scale: Scale) -> int:
        """How many runs it has; none is made."""
        return 0 if self.study is None else self.study.count(scale)

    def seconds(self, scale: Scale) -> float:
        """Expected time of its runs alone, and of what its judges train."""
        runs = 0.0 if self.study is None else self.study.seconds.get(scale, 0.0)
        return runs + self.at_each_call.get(scale, 0.0)

    def of(self, measured: Mapping[str, Measurement], scale: Scale) -> tuple[Measurement, ...]:
        """Its runs, of those (by key) that are there."""
        return tuple(measured[run.key()] for run in self.runs(scale) if run.key() in measured)

    def judge(
        self, measured: Mapping[str, Measurement], scale: Scale, store: Path | None = None
    ) -> tuple[Verdict, ...]:
        """A verdict for each claim, by the measurements of its runs (by key) that are there, and their kept weights."""
        if self.study is not None and (why := self.study.why_none(scale)) is not None:
            return (cannot(f"nothing is run at scale {scale}: {why}"),) * len(self.claims)
        runs = self.of(measured, scale)
        missing = len(self.runs(scale)) - len(runs)
        return tuple(claim.verdict(Evidence(runs, scale, store), missing) for claim in self.claims)


class Paper(Result):
    """A paper with its recipes.

    Attributes:
        source: authors, year and where it is to be found.
    """

    name: str
    source: str
    recipes: tuple[Recipe, ...]


@cache
def _read(folder: Path) -> Paper:
    tables = tomllib.loads((folder / "recipes.toml").read_text(encoding="utf-8"))
    studies = {
        name: ScaledStudy(name=name, folder=folder / "studies", **table) for name, table in tables["studies"].items()
    }
    recipes = tuple(
        Recipe(paper=folder.name, **{**table, "study": studies[table["study"]] if "study" in table else None})
        for table in tables["recipes"]
    )
    return Paper(name=folder.name, source=tables["source"], recipes=recipes)


def read_paper(name: str) -> Paper:
    """A paper by its name.

    Raises:
        SpecError: for a paper that there is not.
    """
    if name not in PAPERS:
        raise SpecError(f"paper: one of {', '.join(PAPERS)}, all, got {name!r}")
    return _read(PAPERS[name])


def recipes(name: str, figure: str | None = None) -> tuple[Recipe, ...]:
    """The recipes of a paper, or of one of its figures.

    Raises:
        SpecError: for a paper or a figure that there is not.
    """
    every = read_paper(name).recipes
    chosen = tuple(recipe for recipe in every if figure in (None, recipe.figure))
    if not chosen:
        known = ", ".join(recipe.figure for recipe in every)
        raise SpecError(f"figure: of {name} one of {known}, got {figure!r}")
    return chosen


def seconds(some: Iterable[Recipe], scale: Scale) -> float:
    """Expected time of some recipes, runs and what judges train: a study that several share is run once."""
    some = tuple(some)
    studies = {(one.paper, one.study.name): one.study.seconds.get(scale, 0.0) for one in some if one.study}
    return sum(studies.values()) + sum(one.at_each_call.get(scale, 0.0) for one in some)


class RecipeRow(Result):
    """A recipe before it is run."""

    paper: str
    figure: str
    title: str
    study: Annotated[str | None, Field(description="Runs that it shares with recipes of the same study, if any.")]
    claims: tuple[str, ...]
    runs: dict[Scale, int]
    seconds: Annotated[
        dict[Scale, float], Field(description="Expected on two cores: of its study, and of what its judges train.")
    ]
    command: str
    missing: Annotated[
        str | None, Field(description="What has to be installed before its study is run; None where all is there.")
    ]


class RecipeList(Result):
    """Every recipe there is."""

    recipes: tuple[RecipeRow, ...]
    seconds: Annotated[dict[Scale, float], Field(description="Of all of them together, each study once.")]
    schema_version: Literal[1] = 1


def listed(name: str | None = None, figure: str | None = None) -> RecipeList:
    """The recipes of a paper, or of all.

    Raises:
        SpecError: for a paper or a figure that there is not.
    """
    chosen = [recipe for each in ([name] if name else PAPERS) for recipe in recipes(each, figure)]
    rows = tuple(
        RecipeRow(
            paper=recipe.paper,
            figure=recipe.figure,
            title=recipe.title,
            study=None if recipe.study is None else recipe.study.name,
            claims=tuple(claim.says for claim in recipe.claims),
            runs={scale: recipe.count(scale) for scale in SCALES},
            seconds={scale: recipe.seconds(scale) for scale in SCALES},
            command=f"capax reproduce {recipe.paper} {recipe.figure}",
            missing=None if recipe.study is None else recipe.study.missing,
        )
        for recipe in chosen
    )
    return RecipeList(recipes=rows, seconds={scale: seconds(chosen, scale) for scale in SCALES})
