"""Writes into predictions.md our laws beside those of the papers and what others published: `docs/published.py`.

The law of capacity is the one that ships; the others are fitted to its data. A test compares the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, get_args

import numpy as np
import polars as pl
from parts import filled, head, powers

import capax
from capax.figures.drawing import draw
from capax.figures.predicted import compared
from capax.laws.capacity import OF_A_FAMILY, CapacityLaw, Size
from capax.laws.compare import ITEMS, Comparison, compare
from capax.laws.files import LAWS, load_law
from capax.laws.law import Law
from capax.laws.rows import left_out as folds
from capax.planning.answers import predicted
from capax.planning.fill import Fill
from capax.planning.known import Seen
from capax.store import table_files, tables

PAGE = Path(__file__).with_name("predictions.md")
FORMS = ("bits", "power", "ecm", "exponential", "logistic", "polynomial")
DEGREE = 2
"""Of the polynomial: there are not enough rows for the paper's."""
IMAGE = Path(__file__).with_name("images") / "laws.png"
HELD_OUT = {
    name: Path(__file__).with_name("capacity") / f"{name}-held-out.db"
    for name in ("grid", "varied", "capacity", "depth")
}
"""Networks of four studies on their second library, which no law is fitted to."""
STUDIES = {
    "grid": "capacity-grid.toml",
    "varied": "capacity-varied.toml",
    "capacity": "capacity.toml",
    "depth": "capacity-depth.toml",
}
SHAPE = (
    *("d_model", "n_heads", "d_head", "n_layers", "ffn", "embeddings", "readout"),
    *("seq_len", "vocab_size", "loss"),
)
SIZE = "effective_parameters"
LARGEST = {"all": (800, 1100, 2000, 3200, 6000, 12_000), "with an FFN": (2000, 3200, 6000, 12_000)}
BANDS = ((1.25, 3.0), (3.0, 10.0), (10.0, 30.0), (30.0, np.inf))
"""Times as large as the largest network of a fit: from and below."""
HEADS = 4
"""Of the published networks, by which their effective parameters were counted, too (reconstructed)."""


DEPTHS = (2, 12)
"""Layers of networks of which nothing but the size is known."""
SHALLOW = 2
LEFT_OUT, SHARES = 10, (0.5, 0.8, 0.95)
"""Folds of what is left out of fits, and the probabilities of the intervals."""


def laws() -> dict[str, Law]:
    """Laws in bits, of the networks that ship with capax: of the size alone, and that of capacity as it ships."""
    alike = tables.where(table_files.from_file("reference:capacity"), ["vocab_size=100", "loss=all"])
    power = capax.PowerLaw(axes=[SIZE], target="capacity_bits").fit(alike)
    return {"power": power, "capacity": load_law("reference")}


def of_sizes(sizes: np.ndarray) -> pl.DataFrame:
    """Networks of some sizes and depths: heads that fill the width, length and vocabulary the largest of our data."""
    ranges = load_law("reference").domain_.ranges
    rows = pl.DataFrame({SIZE: sizes}).join(pl.DataFrame({"n_layers": DEPTHS}), how="cross")
    width = (pl.col(SIZE) / (12 * pl.col("n_layers"))).sqrt()
    return rows.with_columns(
        d_model=width,
        d_head=width,
        n_heads=pl.lit(1),
        **{name: pl.lit(ranges[name][1]) for name in ("seq_len", "vocab_size")},
        **{name: pl.lit(kind) for name, kind in (("loss", "all"), ("embeddings", "trained"), ("ffn", "mlp"))},
    )


def said(ours: Law, rows: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bits of networks, as `capax predict` says them, and the ends of their intervals."""
    return predicted(ours, rows), *ours.predict_interval(rows)


def times(ours: Law, sizes: np.ndarray) -> str:
    """How far sizes lie beyond the largest that a law was fitted to."""
    largest = ours.domain_.ranges[SIZE][1]
    ends = list(dict.fromkeys(f"{float(f'{size / largest:.2g}'):,.0f}" for size in (sizes.min(), sizes.max())))
    return f"{' to '.join(ends)} ×"


def rounded(bits: float) -> str:
    """Bits to three digits."""
    return f"{float(f'{bits:.3g}'):,.0f}"


def networks() -> list[str]:
    """Morris et al. 2025, row by row."""
    rows = tables.where(table_files.from_file("published:morris2025"), ["precision=float32"]).sort(SIZE)
    rows = rows.with_columns(n_heads=pl.lit(HEADS), d_head=pl.col("d_model") // HEADS)
    held, found = rows["capacity_bits"].to_numpy(), laws()
    columns = [f"{name}: {what}" for name in found for what in ("predicted (95 %)", "predicted / published")]
    lines, ends = head("layers, width", "effective", "published", *columns, "beyond"), []
    for name, ours in found.items():
        value, low, high = said(ours, rows)
        inside, error = int(((low <= held) & (held <= high)).sum()), float(np.mean(np.abs(value / held - 1)))
        ends.append((value, low, high))
        columns.append(f"{name}: {inside} of {len(rows)} published values lie in the interval, mean error {error:.0%}")
    for place, row in enumerate(rows.iter_rows(named=True)):
        cells = [
            text
            for value, low, high in ends
            for text in (
                f"{rounded(value[place])} ({rounded(low[place])} to {rounded(high[place])})",
                f"{value[place] / held[place]:.2f}",
            )
        ]
        size = np.array([row[SIZE]])
        first = (f"{row['n_layers']}, {row['d_model']}", f"{row[SIZE]:,}", f"{held[place]:,}")
        lines.append(f"| {' | '.join((*first, *cells, times(found['power'], size)))} |")
    return [*lines, "", f"{'; '.join(columns[-len(found) :])}."]


def by_source() -> list[str]:
    """Bounds of Allen-Zhu and Li 2024, and adapters of Nguyen 2026 by their base; by size and exposures."""
    found = laws()
    names = [f"{name}: predicted (95 %)" for name in found]
    lines = head("source", "parameters", "published, bits a parameter", *names, "beyond")

    def line(who: str, published: str, sizes: np.ndarray, exposures: int | None = None) -> str:
        rows = of_sizes(sizes)
        asked = {name: rows[name].to_numpy() for name in rows.columns}
        seen, ends = Seen.of(asked, exposures), []
        for ours in found.values():
            levels = Fill().widened(ours, rows.select(ours.columns), (0.025, 0.5, 0.975), seen.shares)
            low, value, high = (bits / asked[SIZE] for bits in levels)
            ends.append(f"{value.min():.2g} to {value.max():.2g} ({low.min():.2g} to {high.max():.2g})")
        counts = f"{sizes[0]:,.0f} to {sizes[-1]:,.0f}"
        return f"| {' | '.join((who, counts, published, *ends, times(found['power'], sizes)))} |"

    bounds = table_files.from_file("published:allenzhu2024").filter(pl.col("total_parameters_low").is_not_null())
    for row in bounds.iter_rows(named=True):
        sizes = np.array([row["total_parameters_low"], row["total_parameters_high"]], dtype=float)
        low, high = row["bits_per_parameter_low"], row["bits_per_parameter_high"]
        published = f"at least {low:g}" if high is None else f"{low:g} to {high:g}"
        who = f"Allen-Zhu and Li 2024, {row['exposures']} exposures, {row['network']}"
        lines.append(line(who, published, sizes, row["exposures"]))
    for (base,), rows in table_files.from_file("published:nguyen2026").group_by("base_parameters", maintain_order=True):
        sizes = rows["adapter_parameters"].to_numpy().astype(float)
        density = rows["capacity_bits"].to_numpy() / sizes
        published = f"{density.min():.2g} to {density.max():.2g}"
        lines.append(line(f"Nguyen 2026, adapters on {base / 1e6:,.0f} M", published, sizes))
    return lines


def formula(ours: Law) -> str:
    """A law in one term, or several."""
    fitted = {name: value for name, value in ours.parameters_.items() if value is not None}
    k, a, *others = fitted.values()
    further = ", ".join(f"{name} {value:.3g}" for name, value in zip(list(fitted)[2:], others, strict=True))
    return f"{k:.3g} · P^{a:.3g}{' with ' * bool(further)}{further}"


def section() -> str:
    """Both tables, and where the published networks lie."""
    found = laws()
    row = tables.where(table_files.from_file("published:morris2025"), ["precision=float32"]).row(0, named=True)
    outside = [one for one in found["power"].domain_.outside_in_words(row) if not one.startswith(SIZE)]
    forms = "; ".join(
        f"{name}: C = {formula(ours)}, fitted to {len(ours.rows_.counts)} networks of {low:,.0f} to {high:,.0f} "
        "effective parameters P"
        for name, ours in found.items()
        for low, high in (ours.domain_.ranges[SIZE],)
    )
    lines = [
        f"{forms}. Morris et al. 2025 in float32 lie outside the domain of the first ({'; '.join(outside)}):",
        "",
        *networks(),
        "",
        f"Only the size of these networks is known: the law of capacity is asked for networks of {DEPTHS[0]} and of "
        f"{DEPTHS[1]} layers, whose tables are trained and whose heads fill the width, with the largest length and "
        "vocabulary of its data. After so many exposures, by the share that `reference:exposure` says is known then:",
        "",
        *by_source(),
    ]
    return "\n".join([*lines, ""])


def left_out(found: Comparison, name: str) -> float:
    """A law's error on architectures that it was not fitted to."""
    error = next(score.mape_left_out for score in found.scores if score.law == name)
    assert error is not None
    return error


@cache
def on_grid() -> Comparison:
    """Laws on networks that differ in width, heads and length alone."""
    others = [LAWS[name](degree=DEGREE) if name == "polynomial" else LAWS[name]() for name in FORMS]
    return compare(table_files.from_file("reference:grid"), [load_law("reference"), *others])


def grid() -> str:
    """Their errors, and the exponents of the power law."""
    rows, found = table_files.from_file("reference:grid"), on_grid()
    widest, most = f"width {found.largest_width:.0f}", f"{found.largest_heads:.0f} heads"
    lines = head("law", "parameters", "in sample", "left out", widest, most, "AIC", "BIC")
    for score in found.scores:
        errors = (score.mape, score.mape_left_out, score.mape_largest, score.mape_heads)
        shown = [score.law, f"{score.n_parameters}", *("–" if error is None else f"{error:.1%}" for error in errors)]
        lines.append(f"| {' | '.join([*shown, f'{score.aic:.1f}', f'{score.bic:.1f}'])} |")
    law = capax.PowerLaw(target=ITEMS).fit(rows)
    ends = law.parameter_intervals()
    said = {name: f"{law.parameters_[name]:.2f}, {ends[name][0]:.2f} to {ends[name][1]:.2f}" for name in "pqr"}
    of_width, _ = powers(rows, "d_model", {"heads": pl.col("n_heads"), "length": pl.col("seq_len") - 1}, ITEMS)
    ours, second = left_out(found, "capacity"), capax.read(HELD_OUT["grid"])
    widths = sorted(set(rows["d_model"]))
    return "\n".join(
        [
            *lines,
            "",
            f"{len(found.counts)} networks of widths {widths[0]} to {widths[-1]}, {rows['converged'].sum()} "
            f"converged. On architectures that were left out the law of capacity errs by {ours:.1%}, the ECM by "
            f"{left_out(found, 'ecm') / ours:.0f} times as much.",
            "",
            "![Predicted against measured](images/laws.png)",
            "",
            f"Items held grow with the width to the power {said['r']} (95 % interval), with the heads to the power "
            f"{said['q']}, and fall with the length, N − 1, to the power {said['p']}. Networks of one width err alike "
            f"about a power, which that interval does not allow for: with each of the {len(widths)} widths as one unit "
            f"the exponent of the width is {of_width.value:.2f} ({of_width.low:.2f} to {of_width.high:.2f}).",
            "",
            f"**On a second library**: {len(second)} of these networks ([their store](capacity/"
            f"{HELD_OUT['grid'].name})), architectures that the laws know and sequences that they do not. "
            f"{held_out(second, [load_law('reference'), law])}",
            "",
        ]
    )


def held_out(rows: pl.DataFrame, laws_asked: Sequence[Law]) -> str:
    """What laws say of networks on another library, and how far libraries differ."""
    rows, found = rows.drop_nulls("capacity_bits"), []
    for law in laws_asked:
        value, low, high = said(law, rows)
        held = rows[law.target].to_numpy()
        inside, error = int(((low <= held) & (held <= high)).sum()), np.abs(value / held - 1).mean()
        found.append(f"{inside} of {len(rows)} lie in the interval of law {law.name} (mean error {error:.1%})")
    both = rows.join(table_files.from_file("reference:capacity"), on=SHAPE, suffix="_fitted")
    both = both.drop_nulls("capacity_bits_fitted")
    apart = np.log((both["capacity_bits"] / both["capacity_bits_fitted"]).to_numpy())
    return (
        f"{', '.join(found)}. What a network holds of one library or of another differs by "
        f"{apart.std(ddof=1) / 2**0.5:.1%} (standard deviation), in a pair by {np.abs(apart).max():.0%} at most."
    )


def libraries() -> str:
    """The architectures of the studies on a second library."""
    every, parts = [], []
    for name, store in HELD_OUT.items():
        found, first = capax.read(store), len(capax.read(store.with_name(f"{name}.db")))
        every.append(found)
        count = f"all {first}" if len(found) == first else f"{len(found)} of the {first}"
        parts.append(f"{count} of [{STUDIES[name]}](../examples/{STUDIES[name]})")
    rows = pl.concat(every, how="diagonal_relaxed")
    bounds = int(rows["capacity_bits"].is_null().sum())
    return (
        f"{len(rows)} networks of {len(rows.unique(SHAPE))} architectures on a second library, which no law was fitted "
        "to: "
        f"{', '.join(parts[:-1])} and {parts[-1]} (stores beside [theirs](capacity/{HELD_OUT['varied'].name})); "
        f"{bounds} of them are lower bounds, as gains did not shrink, and left out. "
        f"{held_out(rows, [load_law('reference')])}\n"
    )


def coverage() -> str:
    """How many of the networks that are left out of fits lie in the intervals of the law of capacity."""
    rows = table_files.from_file("reference:capacity").drop_nulls("capacity_bits")
    lines = head("left out at a time", *(f"{share:.0%} intervals" for share in SHARES))
    for words, names in (("a tenth of the architectures", SHAPE), ("a tenth of the families", OF_A_FAMILY)):
        groups = np.unique(rows.select(pl.concat_str(pl.col(names).cast(str), separator=" ")), return_inverse=True)[1]
        inside = np.zeros(len(SHARES))
        for held in folds(groups[:, None], LEFT_OUT):
            law, asked = CapacityLaw().fit(rows.filter(~held)), rows.filter(held)
            bits = asked["capacity_bits"].to_numpy()
            ends = [law.predict_interval(asked, share) for share in SHARES]
            inside += [((low <= bits) & (bits <= high)).sum() for low, high in ends]
        lines.append(f"| {words} | {' | '.join(f'{count / len(rows):.0%}' for count in inside)} |")
    law = CapacityLaw().fit(table_files.from_file("reference:capacity"))
    return "\n".join([*lines, "", f"Of the variance, networks of a family have {law.common_.share:.0%} in common.", ""])


def deeper() -> str:
    """The law of capacity fitted to shallow networks and asked for deeper ones, and how its interval goes on."""
    rows = table_files.from_file("reference:capacity")
    law = CapacityLaw().fit(rows.filter(pl.col("n_layers") <= SHALLOW))
    deep, parts = rows.drop_nulls("capacity_bits").filter(pl.col("n_layers") > SHALLOW), []
    for (layers,), some in deep.sort("n_layers").group_by("n_layers", maintain_order=True):
        value, low, high = said(law, some)
        bits = some["capacity_bits"].to_numpy()
        ratio = np.exp(np.log(bits / value).mean())
        held = f"{((low <= bits) & (bits <= high)).sum()} of {len(some)}"
        parts.append(f"{held} networks with {layers} layers ({ratio:.2f})")
    like = deep.filter(pl.col("n_layers") == 8).tail(1).select(load_law("reference").columns)
    low, high = load_law("reference").predict_interval(
        pl.concat([like, like.with_columns(n_layers=pl.lit(32))], how="vertical_relaxed")
    )
    wide = np.log(high / low)
    return (
        f"Does the law predict deeper networks? Fitted to those of up to {SHALLOW} layers, its 95 % intervals contain "
        f"{', '.join(parts[:-1])} and {parts[-1]}; in brackets: measured / predicted. With the law that ships, the "
        f"interval for 32 layers is {wide[1] / wide[0]:.1f} times as wide as that for 8, on a logarithmic scale.\n"
    )


def distance() -> str:
    """The law of capacity fitted to the smaller networks, and asked for the larger ones."""
    every = table_files.from_file("reference").drop_nulls("capacity_bits").sort(SIZE)
    ends = [f"{low:g} to {high:g} times" if np.isfinite(high) else f"{low:g} times and more" for low, high in BANDS]
    lines = head("networks", "fitted to those of up to", "number fitted", *ends)
    for kind, largest in ((kind, largest) for kind, ends in LARGEST.items() for largest in ends):
        rows = every if kind == "all" else every.filter(pl.col("ffn") == "mlp")
        small = rows.filter(pl.col(SIZE) <= largest)
        end = int(small[SIZE][-1])
        law, cells = CapacityLaw().fit(small), [kind, f"{end:,}", f"{len(small)}"]
        for least, most in BANDS:
            larger = rows.filter((pl.col(SIZE) >= least * end) & (pl.col(SIZE) < most * end))
            if larger.is_empty():
                cells.append("–")
                continue
            held = larger["capacity_bits"].to_numpy()
            value, low, high = said(law, larger)
            error, inside = value / held - 1, int(((low <= held) & (held <= high)).sum())
            cells.append(f"{inside} of {len(larger)}, {np.abs(error).mean():.0%} ({error.mean():+.0%})")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def sizes() -> str:
    """The law of capacity over each count of parameters, with all its terms and by the count alone."""
    rows = table_files.from_file("reference:capacity")
    lines = head("P", "with all terms: in sample", "left out", "by P alone: in sample", "left out")
    for size in get_args(Size):
        scores = [compare(rows, [CapacityLaw(size=size, axes=axes)]).scores[0] for axes in (None, [])]
        errors = [error for score in scores for error in (score.mape, score.mape_left_out)]
        lines.append(f"| {' | '.join([f'`{size}`', *(f'{error or 0:.1%}' for error in errors)])} |")
    return "\n".join([*lines, ""])


def page(text: str) -> str:
    """The page with the tables of today."""
    parts = (
        *(("grid", grid()), ("sizes", sizes()), ("libraries", libraries())),
        *(("coverage", coverage()), ("deeper", deeper())),
        *(("distance", distance()), ("published", section())),
    )
    for name, part in parts:
        text = filled(text, name, "published.py", part)
    return text


def main() -> None:
    """Write it."""
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
    draw(compared(on_grid()), IMAGE, "figure")


if __name__ == "__main__":
    main()
