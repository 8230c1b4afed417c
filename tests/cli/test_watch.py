"""`capax watch`: frames that fit their terminal, and the command on a terminal and off it."""

from __future__ import annotations

import codecs
import fcntl
import io
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from commands import refused, run
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console, ConsoleDimensions
from rich.text import Text

import capax
from capax.cli.plot import Scatter
from capax.cli.watch import frame
from capax.reports.watching import Point, Watched, look
from capax.store import Store
from capax.store.lock import Holder, SweepProgress
from capax.store.schema import Failure, Summary
from capax.training.checkpoints import Saved

NOW = datetime(2026, 1, 2, tzinfo=UTC)
HOSTILE = "no memory\n\x1b[2J\x07[bold]漢字[/] " + "why " * 1000


def summary(number: int, n_heads: int, d_model: int, items: str = "8 tokens of 100") -> Summary:
    return Summary(
        key=f"{number:064}",
        finished=(NOW - timedelta(minutes=3 * number)).isoformat(),
        task="sequences",
        protocol="mac",
        n_layers=1,
        n_heads=n_heads,
        d_model=d_model,
        items=items,
        library_size=2000,
        memorized=d_model * n_heads,
        chance=20.0,
        bits_per_parameter=0.1,
        seconds=2.0,
        stop_reason="plateau",
    )


LAST = tuple(summary(place, 2 ** (place % 4), 8 * (1 + place // 4)) for place in range(48))
RUNNING = Watched(
    store=Path("study.db"),
    at=NOW,
    sweep="running",
    holder=Holder(4711, "host", (NOW - timedelta(hours=2)).isoformat(), SweepProgress(96, 8, 40, 2, 3)),
    total=96,
    done=48,
    failed=3,
    running=2,
    saved=tuple(Saved(steps, NOW - timedelta(minutes=1)) for steps in (120_000, 300)),
    per_minute=0.3333,
    seconds_left=600.0,
    last=LAST,
    failures=tuple(Failure(f"{place:064x}", NOW.isoformat(), HOSTILE, 1, {}) for place in range(3)),
    kind="8 tokens of 100, mac, 1 layer",
    points=tuple(Point(run.n_heads, run.d_model, run.memorized, run.n_heads == 8) for run in LAST),
    others=0,
)
KILLED = replace(
    RUNNING, sweep="killed", total=None, running=None, saved=(), per_minute=None, seconds_left=None, failures=()
)
MIXED = replace(KILLED, sweep="none", holder=None, last=(summary(0, 1, 8, "16 tokens of 漢字" * 9), *LAST), others=1)
EMPTY = replace(KILLED, sweep="none", holder=None, done=0, failed=0, last=(), points=(), kind=None)
STATES = {"running": RUNNING, "killed": KILLED, "mixed": MIXED, "empty": EMPTY}


def drawn(seen: Watched, width: int, height: int, colour: bool = False) -> str:
    console = Console(
        file=io.StringIO(), record=True, width=width, height=height, force_terminal=colour, color_system="standard"
    )
    console.print(frame(seen, ConsoleDimensions(width, height)), height=height)
    return console.export_text(styles=colour)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(("width", "height"), [(80, 24), (100, 30), (120, 40), (200, 60), (30, 8), (3, 2)])
def test_a_frame_fits_its_terminal(state: str, width: int, height: int) -> None:
    text = drawn(STATES[state], width, height)
    lines = text.splitlines()
    assert len(lines) <= height
    assert max(map(cell_len, lines)) <= width
    assert all(character.isprintable() for line in lines for character in line)


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40)])
def test_what_a_frame_says(width: int, height: int) -> None:
    running = drawn(RUNNING, width, height)
    for words in (
        "study.db: a sweep is running for 2 h, process 4711 on host",
        "48 of 96 runs done (50%)",
        "2 running, 3 failed, 0.333 runs a minute, 10 min left, steps 120,000, 300",
        "8 tokens of 100, mac, 1 layer",
        "o 1 head, + 2 heads, x 4 heads",
        "3 failures kept: capax runs --failed --store study.db",
        "no memory [2J [bold]漢字[/] why",
        "memorized (12 lower bounds)",
    ):
        assert words in running
    assert "  3 min     2     8   16/2000     20" in running
    assert ("steps 120,000, 300 saved 1 min ago, last result 0 s ago" in running) == (width > 80)
    first = replace(RUNNING, per_minute=None, seconds_left=None, last=(), saved=RUNNING.saved[:1])
    assert "2 running, 3 failed, step 120,000 saved 1 min ago" in drawn(first, width, height)
    killed = drawn(KILLED, width, height)
    assert "the sweep was killed" in killed
    assert "48 of 96" in killed
    assert "1 other not drawn" in drawn(MIXED, width, height)
    assert "items" in drawn(MIXED, width, height)
    long = replace(RUNNING, store=Path("folder" * 30) / "study.db")
    assert "folder/study.db: " in drawn(long, width, height)
    empty = drawn(EMPTY, width, height)
    assert "study.db: empty" in empty
    assert "no finished run yet" in empty


ITEMS = ("shared context of 4, 4 classes", "shared context of 4, uniform labels", "permutation, 16 items")
OF_TASKS = replace(KILLED, last=tuple(summary(place, 1, 8, items) for place, items in enumerate(ITEMS)))


@pytest.mark.parametrize(("width", "height"), [(40, 20), (60, 20), (80, 24), (120, 40)])
def test_items_that_differ_are_whole(width: int, height: int) -> None:
    """Wrapped where they must be: what they say is not cut off."""
    text = drawn(OF_TASKS, width, height)
    rows = [line.rstrip("│ ").rpartition("│")[2] for line in text.splitlines() if "╮" not in line]
    for items in ITEMS:
        assert set(items.split()) <= set(" ".join(rows).split())


@pytest.mark.parametrize("seen", [RUNNING, OF_TASKS], ids=["alike", "mixed"])
def test_what_has_no_room_is_left_out(seen: Watched) -> None:
    narrow = drawn(seen, 40, 20)
    assert "no room for a plot" not in narrow
    assert "memorized" in narrow
    assert all(len(line) == 40 or not line.startswith(("╭", "╰")) for line in narrow.splitlines())
    assert "+ 2 heads" not in narrow
    assert "chance" not in drawn(OF_TASKS, 80, 24)
    assert "chance" in drawn(RUNNING, 80, 24)


def test_nothing_is_told_by_colour_alone() -> None:
    coloured = drawn(RUNNING, 80, 24, colour=True)
    assert "\x1b[36mo\x1b[0m" in coloured
    plain = drawn(RUNNING, 80, 24)
    assert all(mark in plain for mark in ("o 1 head", "+ 2 heads", "x 4 heads", "# 8 heads"))
    console = Console(file=io.StringIO(), record=True, width=80)
    console.print(Text.from_ansi(coloured))
    assert console.export_text().split() == plain.split()


def plot(points: list[Point], width: int, height: int) -> list[str]:
    console = Console(file=io.StringIO(), record=True, width=width, height=height)
    console.print(Scatter(points), height=height)
    return console.export_text().splitlines()


def test_a_legend_says_where_heads_are_unknown() -> None:
    assert plot([Point(0, 8, 3, False), Point(1, 8, 5, False)], 60, 20)[-1].startswith("o heads unknown, + 1 head,")


def test_marks_stand_at_their_ticks() -> None:
    lines = plot([Point(1, 8, 0, False), Point(2, 16, 200, False), Point(1, 64, 400, False)], 40, 20)
    (top,) = (line for line in lines if line.startswith("   400|"))
    (middle,) = (line for line in lines if line.startswith("   200|"))
    (bottom,) = (line for line in lines if line.startswith("     0|"))
    (labels,) = (line for line in lines if line.startswith("width"))
    assert [top.count("o"), middle.count("+"), bottom.count("o")] == [1, 1, 1]
    assert (bottom.index("o"), top.index("o")) == (labels.index("8"), labels.index("64") + 1)
    share = (middle.index("+") - bottom.index("o")) / (top.index("o") - bottom.index("o"))
    assert abs(share - 1 / 3) < 0.02  # 8, 16, 64: logarithmic


@given(
    st.lists(
        st.builds(Point, st.integers(1, 20), st.integers(2, 1024), st.integers(0, 10**7), st.booleans()),
        min_size=1,
        max_size=8,
    ),
    st.integers(5, 80),
    st.integers(3, 24),
)
@settings(derandomize=True, deadline=None, max_examples=20)
def test_any_points_are_drawn_in_their_place(points: list[Point], width: int, height: int) -> None:
    lines = plot(points, width, height)
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    rows = [line.partition("|")[2] for line in lines if "|" in line]
    marks = sum(character != " " for row in rows for character in row)
    assert marks <= len({(point.d_model, point.memorized) for point in points})
    assert (marks > 0) == bool(rows)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    with Store("s.db") as opened:
        for d_model in (4, 8):
            opened.add(measured(d_model))
    return Path("s.db")


def measured(d_model: int) -> capax.Measurement:
    task = capax.Sequences(seq_len=3, vocab_size=9, library_size=20)
    return capax.measure(task, capax.Transformer(d_model=d_model, d_head=2), capax.Training(max_epochs=1), restarts=1)


def test_edges_with_false_ones_beside_them_are_no_whole_library(tmp_path: Path) -> None:
    """Nor are those of another protocol; items without anything beside them are."""
    task, channel = capax.Relations(n_items=8), capax.KeyQueryChannel(n_heads=1, d_head=3, d_model=6)
    run = capax.measure(task, channel, capax.Training(max_steps=80), restarts=1, store=tmp_path / "s.db")
    assert (run.memorized, run.stop_reason) == (run.library_size, "budget")
    (point,) = look(tmp_path / "s.db").points
    assert (point.memorized, point.whole_library) == (run.memorized, False)
    run = capax.measure(task, channel, capax.Training(max_steps=2000), restarts=1, store=tmp_path / "t.db")
    assert run.stop_reason == "complete"
    (point,) = look(tmp_path / "t.db").points
    assert point.whole_library


STUDY = """
task = { seq_len = 3, vocab_size = 9, library_size = 20 }
model = { d_head = 2 }
training = { max_epochs = 1 }
protocol = { restarts = 1 }
grid = { d_model = [4, 8, 16] }
"""


@pytest.mark.parametrize("flags", [[], ["--once"]])
def test_off_a_terminal_it_is_one_plain_frame(
    store: Path, capsys: pytest.CaptureFixture[str], flags: list[str]
) -> None:
    Path("study.toml").write_text(STUDY)
    out = run(capsys, "watch", store, *flags)
    assert out.startswith("s.db: no sweep")
    assert "2 runs done" in out
    assert "\x1b" not in out
    assert len(out.splitlines()) == 23
    assert "2 of 3" in run(capsys, "watch", store, "--study", "study.toml", *flags)
    Store("empty.db").close()
    assert run(capsys, "watch", "empty.db", *flags).startswith("empty.db: empty")


def test_bad_input(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path.name: path.read_bytes() for path in Path().iterdir()}
    assert "none.db" in refused(capsys, "watch", "none.db")
    assert "store: . is a folder" in refused(capsys, "watch", ".")
    assert "store: folder no " in refused(capsys, "watch", "no/s.db")
    for every in ("nan", "inf"):
        said = refused(capsys, "watch", store, "--every", every)
        assert "every: " in said
        assert repr(every) in said
    for every in ("0", "-1"):
        said = refused(capsys, "watch", store, "--every", every)
        assert "every: " in said
        assert said.endswith(f"got {every}\n")
    assert "no such file: none.toml" in refused(capsys, "watch", store, "--study", "none.toml")
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == before
    Path("text.db").write_text("no database " * 100)
    assert "text.db" in refused(capsys, "watch", "text.db")
    Path("zero.db").touch()
    assert "not a capax store" in refused(capsys, "watch", "zero.db")
    Path("study.toml").write_text(STUDY.replace("seq_len = 3", "seq_len = 4"))
    said = refused(capsys, "watch", store, "--study", "study.toml")
    assert "study.toml, and 2 others" in said


class Terminal:
    """`capax watch` on a terminal of its own."""

    def __init__(self, *arguments: str) -> None:
        self.file, theirs = pty.openpty()
        self.resize(80, 24)
        environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from capax.cli import main; main()", "watch", *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment | {"TERM": "xterm"},
        )
        os.close(theirs)
        self.shown, self.decoder = "", codecs.getincrementaldecoder("utf-8")()

    def resize(self, width: int, height: int) -> None:
        fcntl.ioctl(self.file, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def read_until(self, words: str | None) -> str:
        """What is shown up to these words, or to the end."""
        text, end = "", time.monotonic() + 60
        while words is None or words not in text:
            assert time.monotonic() < end, text
            if select.select([self.file], [], [], 1)[0]:
                try:
                    part = os.read(self.file, 65536)
                except OSError:  # nobody is there any more
                    part = b""
                if not part:
                    assert words is None, text
                    break
                text += self.decoder.decode(part)
        self.shown += text
        return text


@contextmanager
def terminal(*arguments: str) -> Iterator[Terminal]:
    opened = Terminal(*arguments)
    try:
        yield opened
    finally:
        opened.process.kill()
        opened.process.wait()
        os.close(opened.file)


@pytest.mark.slow
def test_live_until_the_sweep_ends(store: Path) -> None:
    """Another process sweeps: rows appear, a new size is taken up, and the last state is left on the screen."""
    with Store(store) as opened, ExitStack() as sweeping, terminal("s.db", "--every", "0.05") as screen:
        tell = sweeping.enter_context(opened.sweeping())
        tell(SweepProgress(3, 2, 0, 1, 0))
        screen.read_until("2 of 3 runs done (67%)")
        screen.resize(120, 40)
        screen.read_until("─" * 60)  # no line of a frame of 80 columns is as long
        opened.add(measured(16))
        tell(SweepProgress(3, 2, 1, 0, 0))
        screen.read_until("3 of 3 runs done (100%)")
        assert screen.process.poll() is None
        sweeping.close()
        left = screen.read_until(None).rpartition("\x1b[?1049l")[2]
        assert screen.process.wait() == 0
    assert "no sweep is running" in left
    assert "3 runs done" in left
    assert screen.shown.count("\x1b[?1049h") == 1
    assert not any(f"\x1b[?{mouse}h" in screen.shown for mouse in (9, 1000, 1002, 1003, 1006))


@pytest.mark.slow
def test_an_empty_store_is_waited_at_and_ctrl_c_is_no_fault(store: Path) -> None:
    Store("empty.db").close()
    with terminal("empty.db", "--every", "0.05") as screen:
        screen.read_until("empty: no run is done")
        screen.process.send_signal(signal.SIGINT)
        left = screen.read_until(None).rpartition("\x1b[?1049l")[2]
        assert "empty: no run is done" in left
        assert screen.process.wait() == 0
