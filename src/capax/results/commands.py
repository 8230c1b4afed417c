"""What commands report beside measurements."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from capax.results.result import Result


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


class SweepSummary(Result):
    """How a sweep ended."""

    study: str
    store: str
    runs: Annotated[int, Field(description="Of the study.")]
    stored: Annotated[int, Field(description="Of these, in the store before.")]
    done: int
    failed: int
    seconds: float
