"""A measurement in a few lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from capax.overview import Overview
from capax.text import duration

if TYPE_CHECKING:
    from capax.results.measurement import Measurement
    from capax.results.parts import StopReason
    from capax.results.result import Interval
    from capax.specs import Run, Training

STOPPED = {
    "complete": "the library was complete",
    "plateau": "nothing improved any more",
    "converged": "a cycle added too little",
    "budget": "its budget was spent",
    "diverged": "it diverged",
}


def of_run(run: Measurement) -> Overview:
    """What was measured, how much is memorized, and how the training ended."""
    spec, counts = run.spec, run.memorized_per_restart
    each = spec.protocol.one_library and len(counts) > 1
    return Overview(
        title=f"{setting(spec)}; protocol {spec.protocol.protocol}, seed {spec.seed}",
        rows={
            "name": run.name or "",
            "tags": ", ".join(run.tags),
            "capacity": _capacity(run),
            spec.protocol.counted: f"{run.memorized} of {run.library_size}{_ends(run.interval)}"
            + (f"; restarts {', '.join(map(str, counts))}" if each else ""),
            "chance": f"{run.chance:.4g} by luck"
            + ("" if run.above_chance else "; the count is not significantly above it"),
            "key dimension": _key_dimension(run),
            "bits": f"{run.bits:.4g}; {run.bits_per_parameter:.3g} per trainable parameter",
            "parameters": parameters(run),
            "training": trained(run),
            "key": run.key[:12],
        },
        notes=run.notes,
    )


def setting(spec: Run) -> str:
    """Model and task in words."""
    return f"{spec.model.words(spec.protocol)}; {spec.task.words()}"


def ended(reason: StopReason, training: Training) -> str:
    """Why a training ended, in words; a complete library need not have ended it."""
    if reason == "complete" and not training.stop_when_complete:
        return "the library was complete, and training went on to its end"
    return f"ended as {STOPPED[reason]}"


def trained(run: Measurement) -> str:
    """How long the training was that counts, and why it ended; of many that count how many ended so."""
    took, reasons = duration(run.seconds), [member.stop_reason for member in run.members]
    if run.spec.protocol.one_library or len(reasons) < 2:
        return f"{run.epochs} epochs, {run.steps} steps, {took}; {ended(run.stop_reason, run.spec.training)}"
    endings = ", ".join(
        f"{reasons.count(reason)} {ended(reason, run.spec.training)}" for reason in STOPPED if reason in reasons
    )
    return f"{len(reasons)} of at most {run.epochs} epochs, {run.steps} steps, {took}; {endings}"


def parameters(run: Measurement) -> str:
    """How many parameters there are, by their kinds."""
    effective = run.parameters.effective
    more = "" if effective in (None, run.parameters.trainable) else f", {effective} effective"
    return f"{run.parameters.trainable} trainable of {run.parameters.total}{more}"


def _capacity(run: Measurement) -> str:
    found = run.capacity
    if found is None:
        return ""
    if found.extrapolated is None:
        return f"not converged: at least {found.bits:.4g} bits"
    per = "" if found.per_effective_parameter is None else f"; {found.per_effective_parameter:.3g} per effective"
    return f"{found.extrapolated:.4g} bits{_ends(found.interval)}{per}"


def _key_dimension(run: Measurement) -> str:
    found = run.key_search
    if found is None:
        return ""
    if found.total_key_dim is None:
        return "no head size up to the width is enough"
    how = ", built, not reached by training" if found.reached_by == "built" else ", reached by training"
    return f"{found.total_key_dim}{_ends(found.interval)}: {found.n_heads} x {found.d_head}{how}"


def _ends(interval: Interval | None) -> str:
    return "" if interval is None else f" ({interval.ends()})"
