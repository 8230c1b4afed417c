"""A report of 1000 runs: its size (goal 3 MB), how long it takes to build (goal 10 s) and to open (goal 2 s)."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from statistics import median

import capax

RUNS = 1000
TIMES = 5
DRAWN = "document.querySelector('[data-figure] .main-svg') !== null"


def measured(epochs: int = 60) -> list[capax.Measurement]:
    """Real runs, two lengths, head counts and widths each, of so many epochs at most."""
    training = capax.Training(max_epochs=epochs)
    return [
        capax.measure(
            capax.Sequences(seq_len=seq_len, library_size=200),
            capax.Transformer(n_heads=n_heads, d_model=d_model),
            training,
            restarts=3,
        )
        for seq_len, n_heads, d_model in product((4, 8), (1, 2), (8, 16))
    ]


def many(real: list[capax.Measurement], number: int) -> Iterator[capax.Measurement]:
    """So many in the same format: each real run again at other lengths, head counts, widths and seeds."""
    shapes = product((8, 12, 16, 24, 32), (1, 2, 3, 4), (16, 24, 32, 48, 64), range(number // 100))
    for place, (seq_len, n_heads, d_model, seed) in enumerate(shapes):
        run = real[place % len(real)]
        spec = run.spec.replace(
            task=run.spec.task.replace(seq_len=seq_len),
            model=run.spec.model.replace(n_heads=n_heads, d_model=d_model),
            seed=seed,
        )
        yield run.model_copy(update={"spec": spec, "key": spec.key()})


def opened(path: Path) -> list[tuple[float, float]]:
    """Seconds until the load event, and until the first figure is drawn, in headless Chromium."""
    from playwright.sync_api import sync_playwright

    found = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for _ in range(TIMES + 1):
            page = browser.new_page(viewport={"width": 1200, "height": 900})
            began = time.perf_counter()
            page.goto(path.as_uri())
            loaded = time.perf_counter() - began
            page.locator("[data-figure]").first.scroll_into_view_if_needed()
            page.wait_for_function(DRAWN)
            found.append((loaded, time.perf_counter() - began))
            page.close()
        browser.close()
    return found[1:]  # the first opening starts the browser's processes


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        store, path = Path(folder) / "runs.db", Path(folder) / "report.html"
        with capax.Store(store) as kept:
            for run in many(measured(), RUNS):
                kept.add(run)
        seconds = []
        for _ in range(TIMES):
            began = time.perf_counter()
            build(store, path)
            seconds.append(time.perf_counter() - began)
        size = path.stat().st_size / 1e6
        print(f"report  {RUNS} runs: {size:.1f} MB (goal 3), built in {median(seconds):.1f} s (goal 10)", flush=True)
        if shutil.which("chromium") is None:
            print("report  not opened: no chromium on this machine")
            return
        times = opened(path)
        loaded, drawn = median(one for one, _ in times), median(one for _, one in times)
        print(
            f"report  opened: load event after {loaded:.1f} s, first figure after {drawn:.1f} s, "
            f"{min(one for _, one in times):.1f} s at best (goal 2)",
            flush=True,
        )


def build(store: Path, path: Path) -> None:
    """What `capax report` does after its imports."""
    from capax import outputs
    from capax.laws.files import load_law
    from capax.reports import report

    outputs.check(path)
    report.write(report.parts(report.content(store, law=load_law("reference"))), path)


if __name__ == "__main__":
    main()
