"""The report's page in a real browser: it draws, sorts, filters and downloads, and needs no network."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browsing import COPIES, Opened

import capax
from capax.figures import interactive, looks
from capax.figures.registry import FIGURES
from capax.laws.files import load_law
from capax.reports import report
from capax.store.schema import Failure

pytestmark = pytest.mark.slow

HOSTILE = (
    "<script>document.title='harmed'</script>\"'`&</title></script><img src=x onerror=alert(1)>\u2028" + "x" * 10_000
)


def test_it_draws_alone_and_says_nothing(shared: Opened, plain: Path) -> None:
    assert shared.draw_all() >= 2
    assert shared.said == []
    assert [url for url in shared.asked if not url.startswith(("data:", "blob:"))] == [plain.as_uri()]


def test_the_table_sorts_by_click_and_by_keyboard(shared: Opened, runs: tuple[capax.Measurement, ...]) -> None:
    page, first = shared.page, 100
    assert len(shared.column("memorized")) == first
    page.get_by_role("button", name=f"Show all {len(runs)}").click()
    rising = sorted(run.memorized for run in runs)
    page.get_by_role("button", name="memorized", exact=True).click()
    assert list(map(int, shared.column("memorized"))) == rising
    assert page.locator("th[aria-sort=ascending]").count() == 1
    page.keyboard.press("Enter")  # the sorted column keeps the focus
    assert list(map(int, shared.column("memorized"))) == rising[::-1]
    assert page.locator("th[aria-sort=descending]").count() == 1


def test_the_filter_and_all_columns(shared: Opened, runs: tuple[capax.Measurement, ...]) -> None:
    page = shared.page
    few = page.locator("#table thead th").count()
    page.get_by_label("all columns").check()
    assert page.locator("#table thead th").count() > few + 30
    page.get_by_label("Filter").fill("n_heads=2 d_model=8")
    assert set(shared.column("n_heads")) == {"2"}
    assert page.locator("#table tbody tr").count() == COPIES
    assert page.locator("#count").text_content() == f"{COPIES} of {len(runs)} runs"
    page.get_by_label("Filter").fill("no such thing")
    assert page.locator("#table tbody tr").count() == 0
    page.get_by_label("Filter").fill("")
    page.get_by_label("all columns").uncheck()


def test_the_filter_takes_any_case_quotes_and_equal_signs(
    browser: Any, runs: tuple[capax.Measurement, ...], tmp_path: Path
) -> None:
    names = ["Two words.txt", "two.txt", "a=b.txt", "random"]
    libraries = [run.spec.task.model_copy(update={"library": name}) for run, name in zip(runs, names, strict=False)]
    several = tuple(
        run.model_copy(update={"spec": run.spec.model_copy(update={"task": task})})
        for run, task in zip(runs, libraries, strict=False)
    )
    path = tmp_path / "report.html"
    report.write(report.build(report.Content("t", ("a.db",), several, (), None)), path)
    opened = Opened(browser, path)
    for typed, found in {
        'library="two words.txt"': names[:1],
        'library="Two words.txt': names[:1],  # as long as it is typed
        '"o WORDS"': names[:1],
        "library=a=b.txt": names[2:3],
        "a=b": names[2:3],
        "LIBRARY=Random": names[3:],
        "two": names[:2],
        "two words": names[:1],
        f"key={several[1].key[:12]}": names[1:2],
        f"{several[1].key}": names[1:2],
        "two library=random": [],
        "task=sequences stop_reason=BUDGET": names,
        "null": [],
        "": names,
    }.items():
        opened.page.get_by_label("Filter").fill(typed)
        assert opened.column("library") == found, typed
    assert opened.said == []
    opened.page.context.close()


def test_downloads_hold_the_data(shared: Opened, runs: tuple[capax.Measurement, ...]) -> None:
    page = shared.page
    texts = {}
    for kind in ("CSV", "JSON"):
        with page.expect_download() as waited:
            page.get_by_role("button", name=f"Download {kind}").click()
        texts[kind] = Path(waited.value.path()).read_text(encoding="utf-8")
    from_csv = {row["key"]: row for row in csv.DictReader(texts["CSV"].splitlines())}
    from_json = {row["key"]: row for row in json.loads(texts["JSON"])}
    assert set(from_csv) == set(from_json) == {run.key for run in runs}
    for run in runs:
        for units in run.units:
            if units.name == "tokens":
                assert from_json[run.key]["tokens_per_parameter"] == pytest.approx(units.per_trainable_parameter)
        assert from_json[run.key]["memorized"] == int(from_csv[run.key]["memorized"]) == run.memorized
        assert from_json[run.key]["bits"] == float(from_csv[run.key]["bits"]) == run.bits
        assert from_json[run.key]["n_heads"] == run.spec.model.n_heads


def test_the_theme_button_paints_page_and_figures(shared: Opened) -> None:
    page = shared.page
    shared.draw_all()
    colours = "() => [document.body, document.querySelector('.main-svg')].map(e => getComputedStyle(e).backgroundColor)"
    light = page.evaluate(colours)
    page.get_by_role("button", name="Dark").click()
    dark = page.evaluate(colours)
    page.get_by_role("button", name="Light").click()
    assert light[0] == light[1] != dark[0] == dark[1]
    assert page.evaluate(colours) == light


def test_paper_is_white_and_narrow(shared: Opened) -> None:
    page = shared.page
    page.get_by_role("button", name="Dark").click()
    page.get_by_label("all columns").check()
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 720, "height": 1000})
    assert page.evaluate("document.documentElement.scrollWidth") <= 720
    colours = "[...document.querySelectorAll('body, .main-svg')].map(e => getComputedStyle(e).backgroundColor)"
    assert set(page.evaluate(colours)) <= {"rgb(255, 255, 255)", "rgba(0, 0, 0, 0)"}
    page.emulate_media(media="screen")
    page.set_viewport_size({"width": 1200, "height": 900})
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    page.get_by_role("button", name="Light").click()
    page.get_by_label("all columns").uncheck()


def sizes(page: Any) -> dict[str, tuple[int, int, int]]:
    """Of every figure: width of its place less that of its picture, height of its place, of its picture."""
    found = {}
    plots = page.locator("[data-figure], #plan-plot")
    for place in range(plots.count()):
        plot = plots.nth(place)
        plot.scroll_into_view_if_needed()
        page.wait_for_function("(plot) => plot.clientWidth === Number(plot.dataset.width)", arg=plot.element_handle())
        size = """(plot) => {
            const drawn = plot.querySelector("svg.main-svg");
            const [width, height] = ["width", "height"].map((name) => drawn.getAttribute(name));
            return [plot.id || plot.dataset.figure, plot.clientWidth - width, plot.clientHeight, Number(height)];
        }"""
        name, *found_size = plot.evaluate(size)
        found[name] = tuple(found_size)
    return found


def test_a_figure_keeps_its_height_when_the_window_is_resized(shared: Opened) -> None:
    page = shared.page
    shared.draw_all()
    before = sizes(page)
    page.set_viewport_size({"width": 1000, "height": 900})
    assert sizes(page) == before
    page.set_viewport_size({"width": 1200, "height": 900})
    assert sizes(page) == before
    assert all(beyond == 0 and place >= picture for beyond, place, picture in before.values())


def test_a_figure_is_as_wide_as_before_after_printing(shared: Opened) -> None:
    shared.draw_all()
    before = sizes(shared.page)
    shared.page.pdf(format="A4")
    assert sizes(shared.page) == before
    shared.page.evaluate("['beforeprint', 'afterprint'].forEach((name) => window.dispatchEvent(new Event(name)))")
    assert sizes(shared.page) == before


def test_panels_stand_in_one_column_on_a_phone(browser: Any, shared: Opened, plain: Path) -> None:
    opened = Opened(browser, plain, viewport={"width": 390, "height": 800})
    opened.draw_all()
    axes = """() => [...document.querySelectorAll("[data-figure]")].map((plot) => {
        const layout = plot._fullLayout;
        const places = Object.keys(layout).filter((name) => /^xaxis/.test(name)).map((name) => layout[name].domain[0]);
        return [new Set(places.map((place) => place.toFixed(2))).size, places.length];
    })"""
    assert max(panels for _, panels in opened.page.evaluate(axes)) > 1
    assert {columns for columns, _ in opened.page.evaluate(axes)} == {1}
    cut = """() => [...document.querySelectorAll("#figures text, #plan-figure text")].filter((text) => {
        const [inner, outer] = [text, text.closest("figure")].map((one) => one.getBoundingClientRect());
        return inner.width && (inner.left < outer.left || inner.right > outer.right);
    }).map((text) => text.textContent)"""
    assert opened.page.evaluate(cut) == []
    marks = "() => ['x', 'y'].map((axis) => document.querySelectorAll(`#plan-plot .${axis}tick text`).length)"
    assert min(opened.page.evaluate(marks)) >= 2
    shared.draw_all()
    assert max(columns for columns, _ in shared.page.evaluate(axes)) > 1  # where there is room
    opened.page.context.close()


def luminance(colour: str) -> float:
    """Relative luminance of "#rrggbb" or "rgb(r, g, b)" (WCAG 2)."""
    parts = re.findall(r"[\da-f]{2}", colour) if colour.startswith("#") else re.findall(r"\d+", colour)
    shares = [int(part, 16 if colour.startswith("#") else 10) / 255 for part in parts]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


@pytest.mark.parametrize(("theme", "least"), [pytest.param("light", 3, marks=pytest.mark.very_slow), ("dark", 4.5)])
def test_lines_stand_out_from_the_page(shared: Opened, theme: str, least: float) -> None:
    shared.draw_all()
    if theme == "dark":
        shared.page.get_by_role("button", name="Dark").click()
    drawn = """() => {
        const lines = [...document.querySelectorAll("path.js-line, .errorbar path")];
        const strokes = lines.map((e) => getComputedStyle(e).stroke);
        const fills = [...document.querySelectorAll("path.point")].map((e) => getComputedStyle(e).fill);
        return [...new Set([...strokes, ...fills])].filter((colour) => /^rgb\\(/.test(colour));
    }"""
    paper = luminance(shared.page.evaluate("getComputedStyle(document.body).backgroundColor"))
    colours = shared.page.evaluate(drawn)
    if theme == "dark":
        shared.page.get_by_role("button", name="Light").click()
    assert len(colours) >= 4
    for colour in colours:
        low, high = sorted((paper, luminance(colour)))
        assert (high + 0.05) / (low + 0.05) >= least, colour


@pytest.mark.parametrize("colours", [looks.COLORS, tuple(interactive.DARK.values())[:-1]])
def test_colours_are_told_apart_by_the_colour_blind(colours: tuple[str, ...]) -> None:
    """By all that Machado et al. 2009 model at their worst, in CIE 1976 differences."""
    severe = {
        "none": np.eye(3),
        "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
        "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
    }
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    to_lab = np.array([[0, 116, 0], [500, -500, 0], [0, 200, -200]])
    rgb = np.array([[int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)] for colour in colours])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    for name, seen in severe.items():
        xyz = np.clip(linear @ np.array(seen).T, 0, 1) @ to_xyz.T / (0.9505, 1, 1.089)
        lab = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116) @ to_lab.T
        apart = np.linalg.norm(lab[:, None] - lab[None], axis=2) + 1000 * np.eye(len(colours))
        assert apart.min() > 12, name


def test_a_hostile_name_does_no_harm_on_a_phone(
    browser: Any, runs: tuple[capax.Measurement, ...], tmp_path: Path
) -> None:
    task = runs[0].spec.task.model_copy(update={"library": HOSTILE})
    spec = runs[0].spec.model_copy(update={"task": task})
    named = runs[0].model_copy(update={"spec": spec, "notes": (HOSTILE,)})
    failure = Failure("k" * 64, "2026-01-01", HOSTILE, 1, {})
    law = load_law("reference:power")
    law.source_, law.notes_ = HOSTILE, [HOSTILE]
    path = tmp_path / "report.html"
    report.write(report.build(report.Content(HOSTILE, (HOSTILE,), (named, *runs[1:4]), (failure,), law)), path)
    opened = Opened(browser, path, viewport={"width": 390, "height": 800}, color_scheme="dark")
    opened.draw_all()
    opened.page.get_by_label("all columns").check()
    assert opened.said == []
    assert [url for url in opened.asked if not url.startswith("data:")] == [path.as_uri()]
    assert opened.page.title().startswith("<script>")
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert opened.page.locator("h1").text_content() == HOSTILE
    assert opened.page.locator("#failures li").count() == 1
    opened.page.context.close()


def test_everything_that_is_operated_has_a_name(shared: Opened) -> None:
    shared.page.get_by_label("n_heads to choose from").fill("")
    shared.draw_all()
    session = shared.page.context.new_cdp_session(shared.page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    operated = {"button", "textbox", "searchbox", "checkbox", "slider", "spinbutton", "link", "img", "image", "region"}
    named = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in nodes
        if not node["ignored"] and node["role"]["value"] in operated
    ]
    assert {"button", "searchbox", "textbox", "checkbox", "slider", "spinbutton"} <= {role for role, _ in named}
    assert [role for role, name in named if not name.strip()] == []
    assert not any("share" in name.lower() or "cloud" in name.lower() for _, name in named)


def test_results_come_first_on_a_phone(shared: Opened) -> None:
    page, tops = shared.page, "(name) => document.querySelector(`#summary ${name}`).getBoundingClientRect().top"
    wide = page.locator("#table thead th").first.text_content()
    assert page.evaluate(tops, ".of") == page.evaluate(tops, ".best")  # cells of one row
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate(tops, ".best") < page.evaluate(tops, ".of")
    page.wait_for_function("document.querySelector('#table th').textContent.startsWith('memorized')")
    cut = "(one) => one.scrollHeight > one.clientHeight"
    assert not page.locator("h1").evaluate(cut)
    page.set_viewport_size({"width": 1200, "height": 900})
    page.wait_for_function("(name) => document.querySelector('#table th').textContent === name", arg=wide)
    assert wide == "key"


def test_the_contents_lead_to_what_they_name(shared: Opened) -> None:
    links = shared.page.locator("nav a").evaluate_all("(links) => links.map((link) => link.hash.slice(1))")
    assert {"figures", "measured", "planner", "runs"} < set(links)
    assert shared.page.evaluate("(ids) => ids.filter((id) => !document.getElementById(id))", links) == []


def test_figures_of_other_kinds_are_folded_away_but_on_paper(
    browser: Any, runs: tuple[capax.Measurement, ...], tmp_path: Path
) -> None:
    others = [run.spec.replace(training=run.spec.training.replace(lr=0.1)) for run in runs[:4]]
    both = [
        *runs[:4],
        *(run.model_copy(update={"spec": s, "key": s.key()}) for run, s in zip(runs, others, strict=False)),
    ]
    path = tmp_path / "report.html"
    figures = {"width": FIGURES["width"]}
    report.write(report.build(report.Content("t", ("a.db",), tuple(both), (), None, figures=figures)), path)
    opened = Opened(browser, path)
    page, folded = opened.page, opened.page.locator("details.more figure")
    assert folded.count() == 1
    assert not folded.is_visible()
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert folded.locator("svg.main-svg").first.is_visible()
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert not folded.is_visible()
    page.evaluate("(id) => { location.hash = id; }", folded.get_attribute("id"))
    folded.locator("svg.main-svg").first.wait_for()
    assert opened.said == []
    page.context.close()


def test_the_numbers_of_a_figure_are_a_table(shared: Opened) -> None:
    page = shared.page
    figure = page.locator("figure[id=width-0]")
    figure.locator("summary").click()
    figure.locator("[data-numbers] td").first.wait_for()
    assert figure.locator("[data-numbers] th").all_text_contents()[0] == "series"
    figure.locator("summary").click()
