"""What the figure of a sensitivity study shows, and that it is drawn."""

from pathlib import Path

import pytest

import capax
from capax.errors import ReportError
from capax.figures.tornado import TornadoBar, tornado
from capax.figures.tornado_drawing import _labels, draw_tornado
from capax.measures.sensitivity import Sensitivity
from capax.specs import Run


def study() -> Sensitivity:
    """Two choices with numbers, one alternative without; as a search for D_K* may find them."""
    sources: dict[str, object] = {"sources": (), "interval": None, "memorized": 1, "memorized_per_restart": (1,)}
    same = {
        **sources,
        "same_training": False,
        "interval": {"low": 6, "high": None, "level": 0.95, "of": "size"},
        "epochs": 1,
        "steps": 1,
        "seconds": 1.0,
        "key": "k",
    }

    def other(value: object, number: float | None, verdict: bool | None) -> dict[str, object]:
        change = {"change": None if number is None else number - 10, "relative_change": None}
        return {**same, **change, "value": value, "number": number, "beyond_noise": verdict, "stop_reason": "budget"}

    return Sensitivity.model_validate(
        {
            "compared": "total_key_dim",
            "number": 10,
            "interval": {"low": 9, "high": None, "level": 0.95, "of": "total key dimension"},
            "noise": "",
            "memorized": 1,
            "memorized_per_restart": (1,),
            "chance": 0,
            "library_size": 8,
            "stop_reason": "budget",
            "key": "k",
            "choices": [
                {
                    "choice": "steps",
                    "base_value": 1500,
                    "base_sources": (),
                    "alternatives": [other(500, None, None), other(4000, 7.0, True), other(4100, 7.1, True)],
                    "swing": 3,
                    "beyond_noise": True,
                },
                {
                    "choice": "lr",
                    "base_value": 0.05,
                    "base_sources": (),
                    "alternatives": [other(1e-2, 11.0, False), other(None, 9.5, None)],
                    "swing": 1.5,
                    "beyond_noise": False,
                },
            ],
            "notes": (),
            "spec": Run(
                task=capax.Relations(n_items=8), model=capax.KeyQueryChannel(d_model=4), protocol=capax.Budget()
            ),
            "versions": {},
        }
    )


def test_a_tornado_shows_what_the_study_found(tmp_path: Path) -> None:
    shown = tornado(study())
    assert (shown.compared, shown.base, shown.band, shown.level) == ("total_key_dim", 10, (9, None), 0.95)
    assert shown.bars == (
        TornadoBar("steps", "1500", ("4000", "4100"), (7.0, 7.1), (True, True), ("500",), ((6, None), (6, None))),
        TornadoBar("lr", "0.05", ("0.01", "none"), (11.0, 9.5), (False, None), (), ((6, None), (6, None))),
    )
    for name, start in (("t.png", b"\x89PNG"), ("t.pdf", b"%PDF")):
        draw_tornado(shown, tmp_path / name, "title")
        assert (tmp_path / name).read_bytes().startswith(start)


def test_labels_that_would_run_into_each_other_become_one() -> None:
    """Letters 1 wide: two labels of 4 and 3 letters need 4.5 between their middles, with a space between them."""
    bar = TornadoBar("batch_size", "512", ("1024", "256", "64", "8"), (10.0, 14.0, 40.0, 60.0), (None,) * 4)
    assert _labels(bar, 1.0) == [(12.0, "1024, 256"), (40.0, "64"), (60.0, "8")]
    assert _labels(bar, 0.1) == [(10.0, "1024"), (14.0, "256"), (40.0, "64"), (60.0, "8")]
    assert _labels(bar, 9.0) == [(35.0, "1024, 256, 64, 8")]


def test_restarts_are_judged_by_the_bases_interval_alone() -> None:
    """So the figure shows no others."""
    run = Run(task=capax.Relations(n_items=8), model=capax.KeyQueryChannel(d_model=4, d_head=2))
    assert [bar.intervals for bar in tornado(study().model_copy(update={"spec": run})).bars] == [(), ()]


def test_without_a_number_of_the_base_there_is_no_tornado() -> None:
    with pytest.raises(ReportError, match="nothing to draw"):
        tornado(study().model_copy(update={"number": None}))
