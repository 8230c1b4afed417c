"""What networks know after so many exposures of what they hold, by the curve of the recipe of protocol capacity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from capax.laws.exposure import ExposureLaw
from capax.laws.files import load_law
from capax.laws.predictor import tails
from capax.planning.answers import Columns
from capax.planning.results import Network
from capax.results import LEVEL
from capax.specs.protocols import CYCLES
from capax.specs.training import USUAL_CYCLES
from capax.text import counted, whole_percent

CURVE = "reference:exposure"
EXPOSURES = CYCLES["cycle_steps"] * (2**USUAL_CYCLES - 1)
"""Times that an item is seen in five cycles of protocol capacity, by when most trainings have converged."""
HELD = 8 * EXPOSURES
"""The same, by when a network holds what the law of capacity says: in eight times as many."""


@dataclass(frozen=True)
class Seen:
    """What each network knows after so many exposures of what it holds.

    Attributes:
        shares: of what it holds, draws `(draws, models)`; None where all is known.
        inside: whether the curve's domain has it.
        rows: what the curve was asked; None where all is known.
        exposures: how many; None where all is known.
    """

    shares: np.ndarray | None
    inside: np.ndarray
    rows: Columns | None = None
    exposures: int | None = None

    @classmethod
    def of(cls, table: Columns, exposures: int | None) -> Self:
        """What networks know, by the curve of the recipe of protocol capacity; all where exposures are not given."""
        count = len(next(iter(table.values())))
        if exposures is None:
            return cls(None, np.full(count, True))
        curve = load_law(CURVE)
        assert isinstance(curve, ExposureLaw)
        rows = table | {"exposures": np.full(count, exposures)}
        shares = curve.share_draws(rows, HELD)
        return cls(shares, curve.inside_domain(rows), rows, exposures)

    def remarks(self, at: int) -> tuple[str, ...]:
        """What to say of a network."""
        if self.exposures is None or self.shares is None:
            return ()
        which = "of what a network holds" if self.shares.shape[1] == 1 else "of what the first holds"
        share = share_in_words(self.shares[:, at])
        return (
            f"after {counted(self.exposures, 'exposure')} {share} {which} is known: by {CURVE}, of the recipe of "
            "protocol capacity",
        )

    def why(self, at: int, known: Sequence[str] = ()) -> list[str]:
        """Why a network lies outside the curve's domain.

        Args:
            known: reasons that were told already; of a column they tell enough.
        """
        if self.rows is None:
            return []
        domain, told = load_law(CURVE).domain_, {reason.split()[0] for reason in known}
        found = domain.outside_in_words({name: values[at].item() for name, values in self.rows.items()})
        return [f"{reason} (of {CURVE})" for reason in found if reason.split()[0] not in told]


def share_in_words(shares: np.ndarray) -> str:
    """A share of which there are draws, and its interval, in percent."""
    below, above = tails(LEVEL)
    low, share, high = map(whole_percent, np.quantile(shares, (below, 0.5, above)))
    return f"{share} ({low} to {high})"


def known_by(network: Network, exposures: int) -> tuple[str, ...]:
    """That the bits of a plan are those of a longer training than the one whose cost is told."""
    curve = load_law(CURVE)
    assert isinstance(curve, ExposureLaw)
    sizes = {name: [getattr(network, name)] for name in ("effective_parameters", "n_layers")}
    rows = sizes | {"exposures": [exposures]}
    share = share_in_words(curve.share_draws(rows, HELD)[:, 0])
    return (
        f"items and bits are what networks hold in the end; after {counted(exposures, 'exposure')} the first knows "
        f"{share} of that (by {CURVE}): --exposures {exposures} plans for what is known then",
    )
