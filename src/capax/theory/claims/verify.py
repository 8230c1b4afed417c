"""Whether what a file claims of its weights holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from capax.errors import ClaimError
from capax.inputs import whole_path
from capax.results import Result
from capax.tasks.association_files import Examples, refuse_contradictions
from capax.theory.claims import recompute
from capax.theory.claims.file import AssociationHeader, ClaimFile, RelationHeader, read

ROUNDING = 4.0
"""How many times the claimed error the recomputed one may be: of errors of rounding, another order of additions on
another machine has another largest one."""
TINY = 4 * 2.0**-52
"""An error, as a share of the example's own label, that is rounding's whatever is claimed."""
RESOLUTION = 1e-9
"""How far below what is claimed an F1 may be, and a margin, as a share of the larger of the two scores that make it."""
UNIT = 1e-6
"""How far the norm of an item may be from 1: rounding to float32 moves it by 1e-7 at most."""


class Check(Result):
    """One claimed number, and the same recomputed."""

    name: str
    claimed: float
    recomputed: float | None
    holds: bool
    allowed: Annotated[
        float | None,
        Field(description="What it may be at most, where that is not the claimed: of the label nearest to its own."),
    ] = None


class Verified(Result):
    """The claim of a file, recomputed by the plain definition in float64 from what the file holds."""

    file: str
    task: Literal["associations", "relations"]
    sizes: Annotated[dict[str, int], Field(description="Dimensions of the tensors.")]
    checks: tuple[Check, ...]
    holds: Annotated[bool, Field(description="Whether all of it holds.")]
    about: Annotated[dict[str, Any], Field(description="What the file says of where it comes from; not checked.")]
    schema_version: Literal[1] = 1

    @property
    def failed(self) -> tuple[Check, ...]:
        """What does not hold."""
        return tuple(check for check in self.checks if not check.holds)


def verify(path: Path | str) -> Verified:
    """Recompute what a file claims of its weights, from the data and the weights in it.

    The file is one that `capax construct … --save` or `capax runs save` wrote. Outputs and scores are those of the
    plain definition, in float64. An error may be up to four times the claimed one, for rounding differs between
    machines; the tolerance within which real labels count as recalled must be less than that within which one answer
    is right for all of them; an F1 or a margin must be what is claimed, but
    for rounding of the very scores that make it. Items of relations must be of unit norm, within 1e-6. A margin is one
    of scores, which grow with the weights: of weights of other sizes margins do not compare.

    Args:
        path: a .safetensors file.

    Raises:
        ClaimError: for a file that is damaged, of something else, whose parts do not fit together, or whose scores or
            outputs are not finite.
    """
    whole_path(path, "file", ClaimError)
    file = read(Path(path))
    header = file.header
    checks = _relations(file, header) if isinstance(header, RelationHeader) else _associations(file, header)
    return Verified(
        file=str(path),
        task=header.task,
        sizes=dict(file.sizes),
        checks=checks,
        holds=all(check.holds for check in checks),
        about=header.about,
    )


def _same(name: str, claimed: int, there: int) -> Check:
    return Check(name=name, claimed=claimed, recomputed=there, holds=claimed == there)


def _relations(file: ClaimFile, header: RelationHeader) -> tuple[Check, ...]:
    claim, sizes, found = header.claim, file.sizes, recompute.recognized(file)
    norm = recompute.worst_norm(file)
    checks = [
        Check(name="item_norm", claimed=1, recomputed=norm, holds=abs(norm - 1) <= UNIT),
        _same("n_items", claim.n_items, sizes["n_items"]),
        _same("n_edges", claim.n_edges, sizes["n_edges"]),
        _same("total_key_dim", claim.total_key_dim, sizes["n_heads"] * sizes["d_head"]),
        Check(name="f1", claimed=claim.f1, recomputed=found.f1, holds=found.f1 >= claim.f1 - RESOLUTION),
    ]
    if claim.margin is not None:
        least = claim.margin - RESOLUTION * found.scale
        holds = found.margin is not None and found.margin >= least
        checks.append(Check(name="margin", claimed=claim.margin, recomputed=found.margin, holds=holds))
    return tuple(checks)


def _associations(file: ClaimFile, header: AssociationHeader) -> tuple[Check, ...]:
    claim, found = header.claim, recompute.remembered(file)
    rows, examples = file.sizes["library_size"], (file.tensors[name] for name in ("queries", "contexts", "labels"))
    checks = [
        _same("library_size", claim.library_size, rows),
        _same("distinct_examples", rows, refuse_contradictions(Examples(*examples))),  # copies are no further ones
    ]
    if claim.max_error is not None:
        scale = np.maximum(found.sizes, min(1.0, found.sizes.max()))  # of a label of zeros, too, there is rounding
        allowed = np.maximum(ROUNDING * claim.max_error, TINY * scale)
        checks.append(
            Check(
                name="max_error",
                claimed=claim.max_error,
                recomputed=float(found.errors.flat[worst := int((found.errors / allowed).argmax())]),
                holds=bool((found.errors <= allowed).all()),
                allowed=float(np.broadcast_to(allowed, found.errors.shape).flat[worst]),
            )
        )
    if claim.recalled is not None:
        holds = found.recalled >= claim.recalled
        checks.append(Check(name="recalled", claimed=claim.recalled, recomputed=found.recalled, holds=holds))
    if claim.recalled is not None and claim.tolerance is not None and rows > 1:
        # of so wide a tolerance that one answer is right for all, what is recalled tells nothing
        checks.append(
            Check(
                name="tolerance", claimed=claim.tolerance, recomputed=found.spread, holds=claim.tolerance < found.spread
            )
        )
    return tuple(checks)
