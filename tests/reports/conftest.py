"""A browser, real runs and the page of their report, for tests that look at it."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import COPIES, Opened

import capax
from capax.laws.files import load_law
from capax.reports import report

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    found = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if found is None:
        pytest.skip("no Chromium here; on Debian: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        root = hasattr(os, "geteuid") and os.geteuid() == 0
        opened = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"] if root else [])
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def runs() -> tuple[capax.Measurement, ...]:
    """Four real runs, and each again under other seeds, so that the table is longer than the page shows at first."""
    real = [
        capax.measure(
            capax.Sequences(seq_len=4, vocab_size=9, library_size=20),
            capax.Transformer(n_heads=n_heads, d_model=d_model, d_head=2),
            capax.Training(max_epochs=2),
            restarts=2,
        )
        for n_heads in (1, 2)
        for d_model in (4, 8)
    ]
    return tuple(
        run.model_copy(update={"key": spec.key(), "spec": spec, "memorized": run.memorized + seed % 3})
        for seed in range(COPIES)
        for run in real
        for spec in (run.spec.replace(seed=seed),)
    )


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory, runs: tuple[capax.Measurement, ...]) -> Path:
    path = tmp_path_factory.mktemp("plain") / "report.html"
    report.write(report.build(report.Content("Capacity", ("a.db",), runs, (), load_law("reference:power"))), path)
    return path


@pytest.fixture(scope="session")
def shared(browser: Any, plain: Path) -> Iterator[Opened]:
    opened = Opened(browser, plain, viewport={"width": 1200, "height": 900}, color_scheme="light")
    yield opened
    opened.page.context.close()
