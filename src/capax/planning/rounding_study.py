"""What weights hold that are written in few bits: a study that ships, of full networks that were rounded."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import NamedTuple

from capax.planning.fill import geometric
from capax.probes.written import Rounding
from capax.specs import Model
from capax.store import table_files

STUDY = "quantization.csv"
LEAST_LEFT = 0.5
"""Share of its bits that each network of the study must have left, for a plan to take such weights."""


Shapes = tuple[tuple[str, tuple[int, ...]], ...]
"""Names and shapes of tensors."""


class Written(NamedTuple):
    """Weights written in one way.

    Attributes:
        how: that way.
        left: share of its bits that a full network has left: the geometric mean over the study's networks.
        spread: standard deviation of that share's logarithm.
        networks: of the study.
    """

    how: Rounding
    left: float = 1.0
    spread: float = 0.0
    networks: int = 0

    def n_bytes(self, model: Model, **sizes: int) -> int:
        """Bytes of all that is trained of a model, as `capax quantize` counts them.

        Args:
            sizes: `Task.sizes` of what it learns.
        """
        one, two = _bytes(self.how, model.model_copy(update={"n_layers": 1}), tuple(sorted(sizes.items())))
        depth: int = model.n_layers  # type: ignore[attr-defined]
        return one + (depth - 1) * (two - one)


@lru_cache(maxsize=32_768)  # a plan asks for many depths of a width
def _bytes(how: Rounding, model: Model, sizes: tuple[tuple[str, int], ...]) -> tuple[int, int]:
    """Bytes of all that is trained of a model of one layer, and of two."""
    one, two = (sum(how.n_bytes(name, shape) for name, shape in shapes) for shapes in _shapes(model, sizes))
    return one, two


@lru_cache(maxsize=4096)  # a plan asks for many ways of writing each model
def _shapes(model: Model, sizes: tuple[tuple[str, int], ...]) -> tuple[Shapes, Shapes]:
    """The trained tensors of a model of one layer, and of two: those of a billion would never end."""

    def of(depth: int) -> Shapes:
        table = model.model_copy(update={"n_layers": depth}).parameters(**dict(sizes))
        return tuple((part.name, part.shape) for part in table if part.trained)

    return of(1), of(2)


@cache
def ways() -> tuple[Written, ...]:
    """The ways of writing weights that a plan chooses from, fewest bits first.

    Those of the study that leave every network at least half of its bits, without those that leave less than another
    of fewer bits does.
    """
    found = []
    for (name, group), some in table_files.shipped(STUDY).group_by("precision", "group"):
        left = some["left"].to_numpy()
        if left.min() >= LEAST_LEFT:
            name = str(name)
            how = Rounding.integers(int(name[3:]), group) if name.startswith("int") else Rounding.floats(name)
            size = float(some["file_bits_per_parameter"].mean())  # type: ignore[arg-type]
            found.append((size, Written(how, *geometric(left), len(left))))
    kept: list[Written] = []
    for _, one in sorted(found, key=lambda each: each[0]):
        if not kept or one.left > kept[-1].left:
            kept.append(one)
    return tuple(kept)
