"""The planner of the report's page, in a real browser, answers as capax does in Python."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browsing import Opened

import capax
from capax.errors import CapaxError
from capax.laws.files import load_law
from capax.planning.families import usual_widths
from capax.planning.results import Frontier
from capax.reports import report
from capax.reports.carried import WIDEST, carried
from capax.store import table_files
from capax.text import amount

DATA = Path(__file__).parents[1] / "laws" / "data"


def held(page: Any) -> list[list[str]]:
    """Heads, width, trainable parameters and bytes of the planner's table."""
    lines = page.locator("#plan-table tbody tr")
    cells = [lines.nth(place).locator("td").all_text_contents() for place in range(lines.count())]
    return [[line[2], line[3], line[4].replace(",", ""), line[6]] for line in cells]


def slide(page: Any, name: str, value: float) -> None:
    """Move a slider to a value that it offers."""
    slider = page.locator(f"#plan-{name}")
    slider.fill(str(json.loads(slider.get_attribute("data-values")).index(value)))


@pytest.mark.slow
def test_the_planner_answers_what_is_asked(shared: Opened) -> None:
    page = shared.page
    page.get_by_label("sequences", exact=True).fill("60")
    slide(page, "seq_len", 20)
    slide(page, "probability", 0.8)
    page.get_by_label("n_heads to choose from").fill("2, 4")
    expected = capax.plan("reference:power", 60, seq_len=20, n_heads=[2, 4], probability=0.8).architectures
    page.wait_for_function("document.querySelectorAll('#plan-table tbody tr').length == 2")
    assert held(page) == [
        [str(a.n_heads), str(a.d_model), str(a.trainable_parameters), amount(a.bytes, "B")] for a in expected
    ]
    assert page.locator("#plan-table th").all_text_contents()[-2:] == ["+head", "+width"]
    page.locator("#plan-seq_len").focus()
    page.keyboard.press("Home")
    assert page.locator("label[for=plan-seq_len] output").text_content() == "4"
    page.wait_for_selector("#plan-answer.refused")
    assert "in the law's domain" in page.locator("#plan-answer").text_content()
    page.get_by_label("extrapolate").check()
    page.wait_for_selector("#plan-answer:not(.refused)")
    assert "seq_len 4 is outside 8 to 32" in page.locator("#plan-answer").text_content()
    page.get_by_label("extrapolate").uncheck()
    slide(page, "seq_len", 8)
    budget = page.get_by_label("trainable parameters, at most", exact=True)
    budget.fill("100")
    page.wait_for_selector("#plan-answer.refused")
    assert "budget_parameters: at least" in page.locator("#plan-answer").text_content()
    budget.fill("")
    page.get_by_label("n_heads to choose from").fill("one")
    page.wait_for_selector("#plan-answer.refused")
    assert "n_heads: integers" in page.locator("#plan-answer").text_content()
    page.get_by_label("n_heads to choose from").fill("")
    page.wait_for_selector("#plan-answer:not(.refused)")


@pytest.mark.very_slow
def test_the_planner_of_a_page_without_a_law_answers_at_any_size(
    browser: Any, runs: tuple[capax.Measurement, ...], tmp_path: Path
) -> None:
    """It plans by what networks hold at convergence, and says how far outside the law's domain that is."""
    path = tmp_path / "report.html"
    report.write(report.build(report.Content("Capacity", ("a.db",), runs[:2], (), None)), path)
    opened = Opened(browser, path, viewport={"width": 1200, "height": 900})
    page = opened.page
    page.get_by_label("sequences", exact=True).fill("20000")
    for name, value in (("seq_len", 16), ("vocab_size", 1024), ("embeddings", "frozen")):
        slide(page, name, value)
    page.get_by_label("n_layers to choose from").fill("1, 4")
    widths = [width for width in usual_widths(8) if width <= WIDEST]
    sizes = {"seq_len": 16, "vocab_size": 1024, "n_layers": [1, 4], "d_model": widths, "embeddings": "frozen"}
    expected = capax.plan("reference", 20000, **sizes).architectures
    page.wait_for_function("document.querySelectorAll('#plan-table tbody tr').length == 2")
    lines = page.locator("#plan-table tbody tr")
    cells = [lines.nth(place).locator("td").all_text_contents() for place in range(2)]
    assert [[line[3], line[4].replace(",", "")] for line in cells] == [
        [str(one.d_model), str(one.trainable_parameters)] for one in expected
    ]
    assert "outside the law's domain: effective_parameters" in page.locator("#plan-answer").text_content()
    page.get_by_label("extrapolate").uncheck()
    why = "the law's domain (vocab_size 1024 is outside 16 to 512 with ffn mlp)"
    page.wait_for_function("(why) => document.querySelector('#plan-answer').textContent.includes(why)", arg=why)
    slide(page, "vocab_size", 256)
    page.wait_for_function("document.querySelector('#plan-answer').textContent.includes('The nearest holds')")
    page.locator("#plan-plot").scroll_into_view_if_needed()
    page.locator("#plan-plot svg.main-svg").first.wait_for()
    assert opened.said == []
    page.context.close()


def test_no_more_items_are_on_the_page_than_there_are() -> None:
    for law, most in (("reference", 16**3), ("reference:power", np.inf)):
        table = carried(load_law(law))
        columns, few = table["columns"], {"seq_len": 4, "vocab_size": 16}
        rows = [dict(zip(columns, row, strict=True)) for row in table["rows"]]
        held = [row for row in rows if all(row.get(name, value) == value for name, value in few.items())]
        assert held
        assert max(max(row["memorized"], *row["at_least"]) for row in held) <= most
    assert max(row["at_least"][-1] for row in held) > 16**3, "where vocab_size is 100"


def question(rng: np.random.Generator, table: dict[str, Any]) -> dict[str, Any]:
    """A question that the page offers."""
    some = [None, None, None, [1, 2], [3], [4, 2, 12], [10]]
    return {
        "target": int(10 ** rng.uniform(0.5, 3.3)),
        "sizes": {name: values[rng.integers(len(values))] for name, values in table["asked"].items()},
        "lists": {name: some[rng.integers(len(some))] for name in table["axes"] if name in ("n_heads", "n_layers")},
        "probability": float(rng.choice(table["probabilities"])),
        "budget_parameters": None if rng.random() < 0.6 else int(10 ** rng.uniform(3.2, 5.2)),
        "extrapolate": table["extrapolates"] and bool(rng.random() < 0.4),
    }


@pytest.mark.very_slow
def test_plans_of_every_kind_of_law_are_those_of_capax(browser: Any) -> None:
    rng = np.random.default_rng(8)
    depth = capax.DepthLaw(n_bootstrap=120).fit(table_files.from_files([DATA / "study.csv", DATA / "depth.csv"]))
    laws = [load_law(f"reference:{name}") for name in ("power", "ecm", "association", "capacity")]
    laws.append(depth)
    page = browser.new_page()
    page.add_script_tag(path=Path(report.__file__).parent / "templates" / "planner.js")
    found, refused = 0, 0
    for law in laws:
        law.draws_ = law.bootstrap()[:120]  # fewer make capax's own plans quicker
        table = carried(law)
        asked = [question(rng, table) for _ in range(9)]
        answers = page.evaluate(
            """(text) => { const [law, asked] = JSON.parse(text); return asked.map((question) => {
                try { return capaxPlanner.plan(law, question); } catch (error) { return error.message; }
            }); }""",
            json.dumps([table, asked], allow_nan=False),  # as in a page; playwright takes seconds for so many objects
        )
        for one, answer in zip(asked, answers, strict=True):
            expected = planned(law, one, table["grid"])
            assert isinstance(answer, str) == isinstance(expected, str), one
            if isinstance(expected, str):
                refused += 1
                continue
            compare(answer, expected)
            found += len(expected.architectures) > 0
    page.close()
    assert found >= 15
    assert refused >= 4


def planned(law: Any, asked: dict[str, Any], grid: dict[str, list[int]]) -> Frontier | str:
    """What capax plans of the page's grid, or why it does not."""
    ranges, choices = law.domain_.ranges, {}
    for name, values in grid.items():
        low, high = ranges.get(name, (min(values), max(values)))
        kept = [one for one in values if asked["extrapolate"] or law.travels or low <= one <= high]
        some = asked["lists"].get(name)
        choices[name] = kept if some is None else [one for one in some if one in kept]
    try:
        options = {name: asked[name] for name in ("probability", "budget_parameters", "extrapolate")}
        return capax.plan(law, asked["target"], **choices, **asked["sizes"], **options)
    except CapaxError as error:
        return str(error)


def compare(answer: dict[str, Any], expected: Frontier) -> None:
    pairs = list(zip(answer["architectures"], expected.architectures, strict=True))
    assert (answer["nearest"] is None) == (expected.nearest is None)
    pairs += [(answer["nearest"], expected.nearest)] if expected.nearest else []
    for ours, theirs in pairs:
        told = theirs.model_dump()
        assert list(told.pop("outside", ours["outside"])) == ours["outside"]
        shown = {name: value for name, value in told.items() if name in ours and value is not None}
        assert {"n_heads", "d_model", "d_head", "trainable_parameters", "memorized", "at_least"} <= shown.keys()
        assert {"efficient", *(name for name in told if name.startswith("gain_of_"))} <= ours.keys()
        assert all(ours[name] is None for name, value in told.items() if name.startswith("gain_of_") and value is None)
        assert ours["size"] == amount(theirs.bytes, "B")
        for name, value in shown.items():
            assert ours[name] == (value if isinstance(value, str) else pytest.approx(value, rel=1e-7)), name
