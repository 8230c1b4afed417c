"""`run.plot()` draws what the run's protocol shows."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pytest
from matplotlib.figure import Figure

import capax
from capax.errors import ReportError
from capax.specs.protocols import Protocol

SHORT = capax.Training(max_epochs=30, lr=0.01)
CYCLES = capax.Training(schedule="cycles", cycle_steps=5, max_steps=15, eval_steps=5)
SMALL = capax.Transformer(d_model=4, d_head=2)


def shown(figure: Figure) -> set[str]:
    """Titles and axes."""
    axes = figure.axes
    return {figure.get_suptitle(), *(one.get_xlabel() for one in axes), *(one.get_ylabel() for one in axes)}


@pytest.mark.slow
def test_restarts_are_drawn_as_they_were_evaluated() -> None:
    task = capax.Sequences(seq_len=3, vocab_size=9, library_size=10)
    run = capax.measure(task, SMALL, SHORT, restarts=2)
    figure = run.plot()
    assert {"Training curves", "epoch", "loss"} <= shown(figure)
    drawn = [line.get_xydata().tolist() for line in figure.axes[0].lines]
    for member in run.members:
        shares = [count / 10 for count in member.curve.memorized]
        assert [list(point) for point in zip(member.curve.epoch, shares, strict=True)] in drawn
    assert plt.get_fignums() == []
    assert figure._repr_png_().startswith(b"\x89PNG")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "model", "training", "protocol", "told"),
    [
        (capax.Sequences(seq_len=3, vocab_size=9), SMALL, CYCLES, capax.Capacity(), "exposures (epochs)"),
        (capax.Sequences(seq_len=3, vocab_size=9, library_size=2), SMALL, SHORT, capax.Shatter(trials=3), "trials"),
        (
            capax.Sequences(seq_len=3, vocab_size=9, library_size=8),
            SMALL,
            SHORT,
            capax.Mls(max_trainings=8),
            "size of the library",
        ),
        (
            capax.Relations(n_items=4),
            capax.KeyQueryChannel(d_model=3),
            capax.Training(max_steps=20),
            capax.Budget(head_counts=(1,), restarts=2, max_trainings=8),
            "total key dimension D_K",
        ),
    ],
    ids=["capacity", "shatter", "mls", "budget"],
)
def test_each_protocol_has_its_figure(
    task: capax.Task, model: capax.Model, training: capax.Training, protocol: Protocol, told: str
) -> None:
    run = capax.measure(task, model, training, protocol=protocol)
    assert told in shown(run.plot())


def test_trials_of_which_none_completed_have_no_figure() -> None:
    task = capax.Sequences(seq_len=3, vocab_size=50, library_size=40)
    run = capax.measure(task, SMALL, capax.Training(max_epochs=1), protocol=capax.Shatter(trials=2))
    with pytest.raises(ReportError, match="no trial completed"):
        run.plot()
