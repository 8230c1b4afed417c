"""Runs, laws, plans and stores say what they are in a few lines, as text and as HTML."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import capax
from capax.laws.files import load_law
from capax.overview import LONGEST, MOST_ROWS, Overview

FEW = 20


@pytest.fixture(scope="module")
def run() -> capax.Measurement:
    task = capax.Sequences(seq_len=3, vocab_size=5, library_size=8)
    return capax.measure(task, capax.Transformer(d_model=4), capax.Training(max_epochs=2), restarts=2)


def each(run: capax.Measurement, folder: Path, store: capax.Store) -> dict[str, Any]:
    law = load_law("reference:power")
    store.add(run)
    config = folder / "config.json"
    config.write_text(
        '{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": 2, "n_head": 2, "n_embd": 16, '
        '"vocab_size": 50, "n_positions": 8}'
    )
    return {
        "run": run,
        "law": law,
        "law in bits": load_law("reference"),
        "prediction": capax.predict(law, n_heads=4, d_model=16, seq_len=12),
        "plan": capax.plan(law, 300, seq_len=8),
        "plan in bits": capax.plan("reference", 20_000, seq_len=16, vocab_size=100),
        "size": capax.model_size(config, bits=1000),
        "store": store,
    }


class Cells(HTMLParser):
    """The texts of a page, and whether each element that is opened is closed in its turn."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_each_is_shown_in_a_few_lines(run: capax.Measurement, tmp_path: Path) -> None:
    with capax.Store(tmp_path / "s.db") as store:
        for kind, shown in each(run, tmp_path, store).items():
            shows(kind, shown)


def shows(kind: str, shown: Any) -> None:
    lines = repr(shown).splitlines()
    assert str(shown) == repr(shown), kind
    assert 2 < len(lines) <= FEW, (kind, lines)
    assert max(map(len, lines)) <= LONGEST, kind
    overview = shown.overview()
    texts = Cells(shown._repr_html_()).texts
    for name, value in overview.rows.items():
        assert not value or {name, value} <= set(texts), (kind, name)
    assert set(overview.table) <= set(texts), kind


def test_a_run_shows_what_it_counted(run: capax.Measurement) -> None:
    named = run.model_copy(update={"name": "baseline", "tags": ("rotary", "v2")})
    for told in (f"{run.memorized} of 8", f"{run.parameters.trainable} trainable", run.key[:12], "budget was spent"):
        assert told in repr(run)
    assert (named.overview().rows["name"], named.overview().rows["tags"]) == ("baseline", "rotary, v2")
    assert "name" not in repr(run)


def test_notebooks_show_a_fitted_law_and_scikit_learn_one_that_is_not() -> None:
    fitted = load_law("reference:power")
    assert fitted._repr_mimebundle_()["text/html"] == fitted.overview().html() == fitted._repr_html_()
    assert f"k {fitted.parameters_['k']:.4g}" in repr(fitted)
    assert repr(capax.PowerLaw(n_bootstrap=20)) == "PowerLaw(n_bootstrap=20)"
    assert "PowerLaw" in capax.PowerLaw()._repr_html_()


def test_nothing_in_an_overview_is_a_command_to_a_page_or_a_terminal() -> None:
    bad = "<script>alert(1)</script>\x1b[2J\n"
    shown = Overview(bad, {bad: bad, "empty": ""}, {bad: [bad]}, (bad,))
    assert "<script" not in shown.html()
    assert "\x1b" not in shown.html() + shown.text()
    assert len(shown.text().splitlines()) == 5
    assert "empty" not in shown.text() + shown.html()


def test_long_tables_and_lines_are_cut() -> None:
    shown = Overview("a" * 500, table={"n": list(map(str, range(100)))})
    lines = shown.text().splitlines()
    assert len(lines) == 1 + 1 + MOST_ROWS + 1
    assert len(lines[0]) == LONGEST
    assert lines[-1] == f"… and {100 - MOST_ROWS} more"


def test_a_store_that_is_closed_says_so(tmp_path: Path) -> None:
    with capax.Store(tmp_path / "s.db") as store:
        assert "0 runs" in repr(store)
    assert "closed" in repr(store)
