"""Plans on the command line: verified where that is asked for, and printed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

from cyclopts import Parameter

from capax import machine
from capax.cli import progress, streams
from capax.errors import LawError
from capax.results import Result
from capax.specs.spec import whole
from capax.store import DEFAULT, check_store

Plan = TypeVar("Plan", bound=Result)
Seed = Annotated[int | None, Parameter(help="Seed of the verification. [default: 0]")]
Workers = Annotated[
    int | None, Parameter(help="Worker processes of the verification. [default: one per core, at most 8]")
]
Kept = Annotated[Path | None, Parameter(help="Where the verification's run is kept. [default: capax.db]")]


def verification(verify: bool, *, seed: int | None, workers: int | None, store: Path | None) -> dict[str, Any] | None:
    """Seed, workers and store of `measure`, by the flags of a plan's verification; None where it is not verified.

    Raises:
        LawError: for flags that would then have no effect.
        CapaxError: for a store that cannot be written to.
    """
    given = {"seed": seed, "workers": workers, "store": store}
    if not verify:
        for name, value in given.items():
            if value is not None:
                raise LawError(f"{name}: only with --verify, got {value}")
        return None
    path = DEFAULT if store is None else store
    check_store(path)
    return {
        "seed": whole("seed", 0 if seed is None else seed, 0),
        "workers": whole("workers", min(machine.cores(), 8) if workers is None else workers),
        "store": path,
    }


def emit(
    found: Plan,
    show: Callable[[Plan], None],
    check: Callable[..., Result] | None,
    show_verified: Callable[[Plan], None],
    *,
    as_json: bool,
) -> None:
    """Print a plan, and what came of it where it is verified.

    Args:
        check: trains the plan's first, with progress of `measure`; None where it is not verified.
    """
    if not as_json:
        show(found)
    if check is not None:
        with progress.training() as watch:
            checked = check(progress=watch)
        found = found.model_copy(update={"verification": checked})
        if not as_json:
            show_verified(found)
    if as_json:
        print(found.model_dump_json(), file=streams.stdout())
