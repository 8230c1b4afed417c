"""What commands report beside measurements."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from capax.results.result import Interval, Result


class Info(Result):
    """Versions, device and threads."""

    versions: dict[str, str]
    platform: str
    cores: int
    torch_threads: int
    device: Literal["cpu", "cuda", "mps"]
    gpu: str | None
    bfloat16: Annotated[
        Literal["native", "emulated"], Field(description="How the device multiplies in bfloat16; emulated is slow.")
    ]
    packs: Annotated[
        Literal["bit for bit", "to rounding"],
        Field(description="How a member's results agree across packs of two and more on this processor."),
    ]
    docs: Annotated[str, Field(description="Folder of the pages that help and errors name as docs/….")]
    examples: Annotated[str, Field(description="Folder of the files that the pages name as examples/….")]


class LawAtTarget(Result):
    """What the law that a sweep measured for says of its target."""

    law: str
    measurements: Annotated[int, Field(description="Runs of the study that its store holds.")]
    target: Annotated[dict[str, int | float | str], Field(description="The architecture, by the law's columns.")]
    counts: Annotated[str, Field(description="What the law is of: bits, or items of the task.")]
    value: Annotated[float | None, Field(description="null where the measurements are too few for a fit.")]
    interval: Annotated[
        Interval | None,
        Field(description="Of the law's value, not of a new measurement; null where the measurements leave it open."),
    ]
    inside_domain: bool


class SweepSummary(Result):
    """How a sweep ended."""

    study: str
    store: str
    runs: Annotated[int, Field(description="Of the study.")]
    stored: Annotated[int, Field(description="Of these, in the store before.")]
    done: int
    failed: int
    seconds: float
    law: Annotated[LawAtTarget | None, Field(description="Of a sweep for a law (--adapt).")] = None
