"""Further columns of a run: what it took, what it can hold, the channel it found, its name, when and where."""

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
        "chance_p": run.chance_p,
        "interval_low": None if ends is None else ends.low,
        "interval_high": None if ends is None else ends.high,
        "name": run.name,
        "tags": ",".join(run.tags) or None,
        "finished": finished,
        "host": run.host,
        "processor": run.processor,
        **{f"{name}_version": version for name, version in run.versions.items()},
    }


def spent(run: Measurement) -> dict[str, float | None]:
    """What the training that counts took; a search, whose trainings are of several sizes, has no such training."""
    if not run.spec.protocol.one_library:
        return {"exposures": None, "flops": None}
    task, counts = run.spec.task, {"trainable": run.parameters.trainable, "total": run.parameters.total}
    per_item = run.spec.model.operations(task.sizes(), task.scored("loss"), counts)
    return {"exposures": run.epochs, "flops": float(run.epochs) * run.library_size * per_item}


def channel(run: Measurement) -> dict[str, Any]:
    """Of relations F1 and the channel's size, or the smallest that a search found and that of the training it counts.

    They differ where only built weights reach the smallest.
    """
    if "f1" not in run.metrics:
        return {}
    found = {"f1": run.metrics["f1"]} | {name: getattr(run, name) for name in ("n_heads", "d_head", "total_key_dim")}
    if (search := run.key_search) is None:
        return found
    ends, trained = search.interval, run.trained_channel or (None, None)
    return found | {
        "total_key_dim_low": None if ends is None else ends.low,
        "total_key_dim_high": None if ends is None else ends.high,
        "reached_by": search.reached_by,
        "trained_n_heads": trained[0],
        "trained_d_head": trained[1],
    }


def capacity(run: Measurement) -> dict[str, Any]:
    """What a model can hold, in bits: after eight times as many steps, with an interval, and as it was reached."""
    found = run.capacity
    if found is None:
        return {}
    interval, an_item = found.interval, run.spec.task.information_per_item()
    return {
        "capacity_items": None if found.extrapolated is None or not an_item else found.extrapolated / an_item,
        "capacity_bits": found.extrapolated,
        "capacity_reached": found.bits,
        "capacity_low": None if interval is None else interval.low,
        "capacity_high": None if interval is None else interval.high,
        "converged": found.converged,
    }
