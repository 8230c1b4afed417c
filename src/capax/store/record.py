"""Columns of a stored run that say what it is called, and when, where and by which versions it was measured."""

from __future__ import annotations

from typing import Any

from capax.results import Measurement


def columns(run: Measurement, finished: str | None) -> dict[str, Any]:
    """What is known of a run beside what it was asked for and what it found.

    Args:
        finished: when it was stored.
    """
    ends = run.interval
    return {
        "interval_low": None if ends is None else ends.low,
        "interval_high": None if ends is None else ends.high,
        "name": run.name,
        "tags": ",".join(run.tags) or None,
        "finished": finished,
        "host": run.host,
        **{f"{name}_version": version for name, version in run.versions.items()},
    }
