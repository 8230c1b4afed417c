"""Every paper's runs are kept beside docs/reproduced.md, and give the verdicts that it shows."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from doc_scripts import DOCS, alike, script
from versions import pinned

from capax.figures.runs import read
from capax.papers.recipe import PAPERS, recipes
from capax.papers.reproduce import Reproduction, figures, fitted
from capax.results import Measurement

KEPT = sorted((DOCS / "reproduced").glob("*.json"))
MANY_FITS = ("harma2024-small", "harma2024-figure-5-paper", "mahdavi2024-small")

DEMO = ("morris2025", "allenzhu2024", "changalidis2025", "lora2026")
"""Papers whose demo is kept, as small takes up to an hour of each."""


def test_small_of_every_paper_is_kept_with_every_figure() -> None:
    assert {path.stem for path in KEPT} >= {f"{paper}-{'demo' if paper in DEMO else 'small'}" for paper in PAPERS}
    for paper in PAPERS:
        drawn = {f"{paper}-small-{recipe.figure}.png" for recipe in recipes(paper) if recipe.chart is not None}
        found = {path.name for path in (DOCS / "reproduced").glob(f"{paper}-small-*.png")}
        assert {re.sub(r"-\d.png$", ".png", name) if name not in drawn else name for name in found} == drawn
        assert all(f"(reproduced/{name})" in (DOCS / "reproduced.md").read_text("utf-8") for name in found)


def test_the_readme_counts_the_verdicts() -> None:
    text = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    assert script("reproduced")["readme"](text) == text, "run python docs/reproduced.py"


@pytest.mark.parametrize(
    "kept",
    [pytest.param(path, id=path.stem, marks=[pytest.mark.slow] * (path.stem in MANY_FITS)) for path in KEPT],
)
def test_the_runs_that_are_kept_give_the_verdicts(kept: Path, tmp_path: Path) -> None:
    told = Reproduction.model_validate_json(kept.read_text(encoding="utf-8"))
    if told.paper == "lora2026" and not pinned("peft", "transformers"):
        pytest.skip("keys of adapters name the versions of peft and transformers")
    runs, store = dict[str, Measurement](), None
    if told.store is not None:  # else the figure needs no runs
        store = Path(shutil.copy(kept.with_name(told.store), tmp_path))
        if (weights := kept.with_name(f"{told.store}-weights")).exists():
            shutil.copytree(weights, tmp_path / weights.name)
        runs = {run.key: run for run in read([store]).runs}
    for recipe in recipes(told.paper, told.figure):
        (said,) = (one for one in told.recipes if one.figure == recipe.figure)
        assert [claim.says for claim in said.claims] == [claim.says for claim in recipe.claims]
        if recipe.study is not None and not recipe.study.missing:
            assert said.runs == said.of == len(recipe.of(runs, told.scale)) > 0, recipe.figure
        elif told.figure is None or recipe.study is not None:  # arithmetic and constructions have tests of their own
            continue
        verdicts = recipe.judge(runs, told.scale, store)
        assert [claim.answer for claim in said.claims] == [verdict.answer for verdict in verdicts], recipe.figure
        for claim, verdict in zip(said.claims, verdicts, strict=True):
            assert alike(claim.measured, verdict.measured), (claim.says, claim.measured, verdict.measured)


@pytest.mark.slow
def test_figure_7_has_both_rows_and_no_count_below_zero() -> None:
    kept = Reproduction.model_validate_json((DOCS / "reproduced" / "harma2024-small.json").read_text(encoding="utf-8"))
    assert kept.store is not None
    runs = {run.key: run for run in read([DOCS / "reproduced" / kept.store]).runs}
    own = recipes("harma2024", "figure-7")
    charts = figures(own, runs, "small")["figure-7"].shown(tuple(runs.values()), fitted(own, runs, "small"))
    assert [chart.title.partition(":")[0] for chart in charts] == ["figure-7", "figure-7, law polynomial"]
    assert charts[0].title.partition(":")[2] == charts[1].title.partition(":")[2]
    bands = [series for panel in charts[1].panels for series in panel.series if series.kind == "band"]
    assert bands
    assert min(low for band in bands for low in band.low or () if low is not None) == 0
