"""Writes what laws.md says of bits after so many exposures, and the table that ships: `python docs/exposures.py`.

In capacity/ lie the stores that `capax sweep` wrote of examples/capacity.toml, exposures.toml and the studies of
capacity. Forms of the curve are compared on these, a store of docs/reproduced and the record of convergence. A test
compares the page and the table.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from parts import filled, head
from scipy.optimize import least_squares

import capax
from capax.laws.exposure import ExposureLaw
from capax.laws.files import load_law
from capax.planning.fill import Fill
from capax.planning.known import HELD
from capax.store import tables
from capax.store.curves import KNOWN, begun, below_their_library

HERE = Path(__file__).parent
PAGE, RECORD = HERE / "laws.md", HERE.parent / "benchmarks/records/2026-11-24-convergence.jsonl"
REFERENCE = HERE.parent / "src/capax/data/reference/exposures.csv"
STORES = ("capacity/capacity.db", "capacity/exposures.db")
STUDIES = tuple(f"capacity/{name}.db" for name in ("varied", "grid", "ladder", "depth"))
RECIPES = {
    "soap": "SOAP at 0.05 in cycles ([the recipe](capacity.md#the-recipe))",
    "adam": "Adam at 0.003 throughout ([exposures.toml](../examples/exposures.toml))",
}
Vector = np.ndarray
FORMS: dict[str, Callable[[Vector, float], Vector]] = {
    "1 / (1 + (τ/E)^β)": lambda behind, beta: 1 / (1 + np.exp(beta * behind)),
    "1 − exp(−(E/τ)^β)": lambda behind, beta: -np.expm1(-np.exp(-beta * behind)),
    "exp(−(τ/E)^β)": lambda behind, beta: np.exp(-np.exp(beta * behind)),
    "1 − (1 + E/τ)^(−β)": lambda behind, beta: 1 - (1 + np.exp(-behind)) ** -beta,
    "1 − exp(−E/τ)": lambda behind, beta: -np.expm1(-np.exp(-behind)),
}
"""Shares of what is held, of log(τ/E) and a shape."""
RUNG = "capacity/ladder-gpu.db"
HELD_OUT = (*(f"capacity/{name}-held-out.db" for name in ("grid", "varied", "capacity", "depth")), RUNG)
IN_STEPS, DEPTH = "capacity/exposures-steps.db", "capacity/depth.db"
EXPOSED = (100, 300, 700, 1500, 3100)
"""Ends of cycles of the recipe."""
STARTS = [(tau, beta) for tau in (30.0, 300.0) for beta in (0.5, 1.5)]


class Curves(NamedTuple):
    """Points of curves.

    Attributes:
        size, layers, seen, known: `(points,)` effective parameters, layers, exposures and bits.
    """

    size: Vector
    layers: Vector
    seen: Vector
    known: Vector

    def take(self, kept: Vector) -> Curves:
        """Some of them."""
        return Curves(*(values[kept] for values in self))

    def apart(self, values: Vector) -> Vector:
        """Values of points, less the mean of their architecture: what is left is of the curve, not of its level."""
        own = np.unique(self.size, return_inverse=True)[1]
        return values - (np.bincount(own, values) / np.bincount(own))[own]


def measured(stores: tuple[str, ...] = STORES + STUDIES) -> pl.DataFrame:
    """The points of both recipes, with the columns that hold anything."""
    rows = pl.concat([capax.curves(HERE / store) for store in stores], how="diagonal_relaxed")
    rows = rows.with_columns(pl.col(KNOWN, "library_bits").round(1))
    return rows.select(name for name in rows.columns if rows[name].null_count() < len(rows))


def fitted(optimizer: str) -> ExposureLaw:
    """The law of one recipe."""
    return ExposureLaw().fit(tables.where(measured(), [f"optimizer={optimizer}"]))


def studies() -> dict[str, Curves]:
    """Curves of four recipes; the last are those of the record of convergence, which does not tell the layers."""
    rows = measured()
    found = {optimizer: rows.filter(pl.col("optimizer") == optimizer) for optimizer in RECIPES}
    found["SOAP, tied and trained tables"] = capax.curves(HERE / "reproduced/morris2025-demo.db")
    points, columns = {}, ("effective_parameters", "n_layers", "exposures", KNOWN)
    for name, table in found.items():
        kept = begun(below_their_library(table)[0])[0]
        points[name] = Curves(*(kept[column].cast(float).to_numpy() for column in columns))
    ends = [json.loads(line) for line in RECORD.read_text("utf-8").splitlines()]
    each = [(one["effective"], np.mean(one["ends"], axis=0)) for one in ends]
    points["the record, up to 51,100 exposures"] = Curves(
        np.concatenate([np.full(len(bits), float(size)) for size, bits in each]),
        np.concatenate([np.ones(len(bits)) for _, bits in each]),
        np.concatenate([100.0 * (2.0 ** np.arange(1, len(bits) + 1) - 1) for _, bits in each]),
        np.concatenate([bits for _, bits in each]),
    )
    return points


def solved(form: str, term: str, points: Curves, start: Vector | None = None) -> Vector:
    """Logarithms of τ, β and δ, and exponents of size, by least squares of curves whatever their level."""
    free = np.array([True, term == "s", form != "1 − exp(−E/τ)", term == "delay", term == "delay"])
    starts = [np.array([np.log(tau), 0, np.log(beta), 1.5, 0.2]) for tau, beta in STARTS] if start is None else [start]
    best, cost = starts[0], np.inf
    low, high = np.array([-5, -3, -3, -12, -3.0]), np.array([15, 3, 3, 9, 3.0])
    for begin in starts:
        theta = begin.copy()

        def residuals(values: Vector, theta: Vector = theta) -> Vector:
            theta[free] = values
            return points.apart(share(form, term, theta, points) - np.log(points.known))

        result = least_squares(residuals, begin[free], bounds=(low[free], high[free]))
        if result.cost < cost:
            best, cost = theta.copy(), result.cost
            best[free] = result.x
    return best


def share(form: str, term: str, theta: Vector, points: Curves) -> Vector:
    """Logarithms of the share that is known; a delay adds (δ/E)² to what is divided by."""
    tau, s, beta, delta, p = theta
    size, seen = np.log(points.size / 1000), np.log(points.seen)
    known = np.maximum(FORMS[form](tau + s * size - seen, float(np.exp(beta))), 1e-300)
    late = np.exp(2 * (delta + p * size + np.log(points.layers) - seen)) if term == "delay" else 0.0
    return np.asarray(-np.log(1 / known + late))


def left_out(form: str, term: str, points: Curves) -> float:
    """Error of the curves of architectures that were left out, a twentieth of them at a time."""
    whole, errors = solved(form, term, points), []
    own = np.unique(points.size, return_inverse=True)[1]
    for held in np.array_split(np.random.default_rng(0).permutation(own.max() + 1), min(20, own.max() + 1)):
        kept = ~np.isin(own, held)
        theta, rest = solved(form, term, points.take(kept), whole), points.take(~kept)
        errors.append(np.abs(rest.apart(share(form, term, theta, rest) - np.log(rest.known))))
    return float(np.mean(np.concatenate(errors)))


TERMS = {"": "τ", "s": "τ ∝ P^s", "delay": "a delay"}
"""What the form may have besides, and what it is called."""


def forms() -> list[str]:
    """Every form in every study."""
    found = studies()
    names = [RECIPES.get(name, name).partition(" at")[0] for name in found]
    lines = head("form of the curve", *(f"{name}: {of}" for name in names for of in TERMS.values()))
    for form in FORMS:
        cells = [f"{left_out(form, term, points):.1%}" for points in found.values() for term in TERMS]
        lines.append(f"| {' | '.join((form, *cells))} |")
    return lines


def laws() -> list[str]:
    """The law of each recipe: its parameters, how long it takes, and bits after 100 and 1000 exposures."""
    lines = head(
        *("training", "a", "τ of 1000 parameters", "s", "β", "δ of a layer, 1000 parameters", "p"),
        "half, 90 %, 95 % known after",
        *("bits a parameter, 100 exposures", "1000 exposures", "ratio"),
    )
    for optimizer, recipe in RECIPES.items():
        law = fitted(optimizer)
        ends, rows = law.parameter_intervals(), law.measurements().columns
        largest = int(np.argmax(rows["effective_parameters"]))
        size, layers = (float(rows[name][largest]) for name in ("effective_parameters", "n_layers"))
        columns = {name: np.full(2, value) for name, value in (("effective_parameters", size), ("n_layers", layers))}
        columns["exposures"] = np.array([100.0, 1000.0])
        value, (low, high) = law.predict(columns) / size, np.array(law.predict_interval(columns)) / size
        cells = (
            recipe,
            *(_with_ends(law.parameters_[name], ends[name]) for name in ("a", "tau", "s", "beta", "delta", "p")),
            ", ".join(f"{law.exposures_for(share, size, layers):,.0f}" for share in (0.5, 0.9, 0.95)),
            *(f"{one:.2f} ({below:.2f} to {above:.2f})" for one, below, above in zip(value, low, high, strict=True)),
            f"{value[0] / value[1]:.2f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def held_out() -> list[str]:
    """What the laws that ship say together, as in a plan, of networks on libraries that neither was fitted to."""
    capacity, curve = load_law("reference"), load_law("reference:exposure")
    assert isinstance(curve, ExposureLaw)
    found = []
    for store in HELD_OUT:
        rows = capax.curves(HERE / store)
        asked = rows.select(capacity.columns)
        low, middle, high = Fill().widened(capacity, asked, (0.025, 0.5, 0.975), curve.share_draws(rows, HELD))
        known = rows[KNOWN].to_numpy()
        found.append(
            rows.select("exposures", "n_layers").with_columns(
                rung=pl.lit(store == RUNG),
                ratio=known / middle,
                inside=(low <= known) & (known <= high),
            )
        )
    points = pl.concat(found)
    groups = {
        "one layer": ~pl.col("rung") & (pl.col("n_layers") == 1),
        "two": ~pl.col("rung") & (pl.col("n_layers") == 2),
        "three and four": ~pl.col("rung") & pl.col("n_layers").is_between(3, 4),
        "six": ~pl.col("rung") & (pl.col("n_layers") == 6),
        "eight": ~pl.col("rung") & (pl.col("n_layers") == 8),
        "two, 943,000 trained numbers": pl.col("rung"),
    }
    assert points.filter(~pl.any_horizontal(groups.values())).is_empty()
    lines = head("exposures", *groups)
    for seen in EXPOSED:
        cells = [f"{seen}"]
        for group in groups.values():
            rows = points.filter(group & (pl.col("exposures") == seen))
            if rows.is_empty():
                cells.append("–")
                continue
            cells.append(f"{rows['inside'].sum()} of {len(rows)}, {np.exp(rows['ratio'].log().mean()):.2f}")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def in_steps() -> list[str]:
    """What networks of one to eight layers know after 100 exposures, in so many steps, of what they can hold."""
    network = ["n_layers", "n_heads", "d_model", "library_size"]
    rows, whole = (
        pl.concat([capax.curves(HERE / store) for store in stores], how="diagonal_relaxed")
        for stores in ((IN_STEPS,), (DEPTH,))
    )
    held = capax.read(HERE / DEPTH).select(*network, "capacity_bits")
    points = pl.concat([rows, whole.join(rows, on=network, how="semi")], how="diagonal_relaxed")
    points = points.filter(pl.col("exposures") == 100).join(held, on=network)
    batches = (pl.col("library_size") / pl.col("batch_size")).ceil()
    points = points.with_columns(steps=100 * batches, share=pl.col(KNOWN) / pl.col("capacity_bits"))
    lines = head("layers, width", *(f"{steps:.0f} steps" for steps in points["steps"].unique().sort()))
    for (layers, width), cells in points.sort("n_layers", "steps").group_by("n_layers", "d_model", maintain_order=True):
        known = (f"{bits:,.0f} bits, {share:.0%}" for bits, share in cells.select(KNOWN, "share").rows())
        lines.append(f"| {layers}, {width} | {' | '.join(known)} |")
    return lines


def _with_ends(value: float | None, ends: tuple[float | None, float | None]) -> str:
    return "0, held" if value is None else f"{value:.3g} ({ends[0]:.3g} to {ends[1]:.3g})"


def page(text: str) -> str:
    """The page with what came out."""
    lines = [
        *laws(),
        "",
        "Forms, each predicting architectures that were left out of its fit: mean error of the curve, whatever its "
        "level:",
        "",
        *forms(),
        "",
        "Held out: points of networks on a second library, and of the ladder's rung of 943,000 trained numbers, which "
        "no law was fitted to. How many lie in the 95 % interval of a plan with `--exposures`, which combines the two "
        "laws, and measured / predicted:",
        "",
        *held_out(),
        "",
        "Two restarts of networks of 50,000 trained numbers after 100 exposures: in one step per exposure, as the "
        "recipe has it, and in smaller batches "
        "([exposures-steps.toml](../examples/exposures-steps.toml)); bits known, and the share of what they hold:",
        "",
        *in_steps(),
    ]
    return filled(text, "exposures", "exposures.py", "\n".join(lines))


def reference() -> bytes:
    """The points as the table that ships with capax."""
    return measured().write_csv().encode()


def main() -> None:
    """Write both."""
    REFERENCE.write_bytes(reference())
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
