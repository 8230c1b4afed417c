"""What a figure shows, and that it is drawn."""

from pathlib import Path

import capax
from capax.reports.data import memorized_against_width
from capax.reports.figures import draw_memorized_against_width


def test_lines_hold_the_runs_in_order(tmp_path: Path) -> None:
    training = capax.Training(max_epochs=1)
    runs = [
        capax.measure(
            capax.Sequences(seq_len=seq_len, vocab_size=9, library_size=20),
            capax.Transformer(n_heads=n_heads, d_model=d_model, d_head=2),
            training,
            restarts=2,
        )
        for seq_len, n_heads, d_model in [(4, 1, 8), (3, 2, 4), (3, 1, 8), (3, 1, 2), (3, 2, 2), (4, 1, 2)]
    ]
    lines = memorized_against_width(runs)
    assert [(line.seq_len, line.n_heads, line.widths) for line in lines] == [
        (3, 1, (2, 8)),
        (3, 2, (2, 4)),
        (4, 1, (2, 8)),
    ]
    assert lines[0].memorized == (runs[3].memorized, runs[2].memorized)
    assert lines[0].restarts == (runs[3].memorized_per_restart, runs[2].memorized_per_restart)
    picture = tmp_path / "f.png"
    draw_memorized_against_width(lines, picture, "title")
    assert picture.read_bytes().startswith(b"\x89PNG")
