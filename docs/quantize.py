"""Writes what how-to/quantize.md shows, and the data that plans take: `python docs/quantize.py [FOLDER]`.

With a folder, what it lacks is measured there (examples/quantize*.toml, half an hour), and the weights that are kept
there are rounded anew. A test compares the page.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from parts import filled, head

import capax
from capax.cli.plan_shown import amount
from capax.figures.chart import Chart
from capax.figures.drawing import draw
from capax.figures.quantization import quantization
from capax.probes.quantization import Mean, Precision, Quantization, mean
from capax.sweeps.grid import read_study

HOME = Path(__file__).parents[1]
FOLDER = Path(__file__).with_name("quantize")
PAGE = Path(__file__).parent / "how-to" / "quantize.md"
REFERENCE = HOME / "src/capax/data/reference/quantization.csv"
STUDIES = ("quantize", "quantize-adam", "quantize-filled")
BITS = (12, 10, 9, 8, 7, 6, 5, 4, 3, 2)
SHOWN = ("bfloat16", "int8 a tensor", "int8 32", "int6 32", "int4 a tensor", "int4 32")
PUBLISHED = {
    "bfloat16": "0.99: adapters (Tan et al. 2026; secondary)",
    "int8": "1: language models, step not known (Allen-Zhu and Li 2024; secondary)",
    "int4": "0.35, of 2 bits per parameter 0.7 (the same; step not known; secondary)",
}


def found(study: str) -> list[Quantization]:
    """What a study found, network by network, in its order."""
    return [Quantization.model_validate(one) for one in json.loads((FOLDER / f"{study}.json").read_text())]


def take(folder: Path) -> None:
    """Measure what a folder lacks, round what it keeps, and keep what was found."""
    for study in STUDIES:
        store, lines = folder / f"{study}.db", []
        for run in read_study(HOME / "examples" / f"{study}.toml").runs:
            options = {"protocol": run.protocol, "seed": run.seed, "store": store, "keep_weights": True}
            done = capax.measure(run.task, run.model, run.training, **options)
            lines.append(capax.quantize(done.key, bits=BITS, store=store).model_dump_json())
        (FOLDER / f"{study}.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")


def reference() -> bytes:
    """The full networks, as the table that plans take."""
    lines = ["# Full networks with their weights rounded (docs/quantize.py): share of the bits that is left"]
    lines.append("d_model,tables,precision,group,networks,file_bits_per_parameter,left,bits_per_byte")
    for one in found("quantize"):
        model = one.spec.model.columns()
        for row in one.precisions:
            assert row.left is not None
            cells = (model["d_model"], model["embeddings"], row.name, row.group or "", one.networks)
            numbers = (row.file_bits_per_parameter, row.left.value, row.bits_per_byte.value)
            lines.append(",".join([*map(str, cells), *(f"{number:.6g}" for number in numbers)]))
    return ("\n".join(lines) + "\n").encode()


def said(value: Mean, form: str) -> str:
    """A mean and its interval."""
    end = value.interval
    return f"{value.value:{form}}" + ("" if end is None else f" ({end.low:{form}}–{end.high:{form}})")


def named(row: Precision) -> str:
    """What weights are written in."""
    if not row.name.startswith("int"):
        return row.name
    return f"{row.name} {'a tensor' if row.group is None else row.group}"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table of the page."""
    return [*head(*heads), *(f"| {' | '.join(cells)} |" for cells in rows), ""]


def by_precision(full: Sequence[Quantization]) -> list[str]:
    """A row for each way of writing weights: what is left, over the networks."""
    rows = []
    for place, first in enumerate(full[0].precisions):
        each = [one.precisions[place] for one in full]
        left = mean([row.left.value for row in each if row.left is not None])
        sizes = [row.file_bits_per_parameter for row in each]
        best = sum(one.most == place for one in full)
        steps = "–" if not first.name.startswith("int") else "a tensor" if first.group is None else f"{first.group}"
        published = PUBLISHED.get(first.name, "–") if first.group is None else "–"
        byte = mean([row.bits_per_byte.value for row in each])
        size = f"{min(sizes):.1f}–{max(sizes):.1f}" if max(sizes) - min(sizes) > 0.05 else f"{sizes[0]:.0f}"
        cells = (first.name, steps, size, said(left, ".3f"), said(byte, ".2f"), f"{best}" if best else "")
        rows.append((*cells, published))
    heads = (
        "weights",
        "step for",
        "bits per number",
        "left (95 %)",
        "bits per byte (95 %)",
        "most in",
        "published, left",
    )
    return table(heads, rows)


def network(one: Quantization) -> str:
    """A network's width and tables."""
    model = one.spec.model.columns()
    return f"{model['d_model']}, {'tied' if model['readout'] == 'tied' else 'frozen'}"


def figure() -> Chart:
    """The full networks."""
    full = found("quantize")
    return quantization(full, [f"width {network(one)} tables" for one in full])


def by_network(full: Sequence[Quantization]) -> list[str]:
    """A row for each network: at which precision its bytes hold most."""
    rows = []
    for one in full:
        best = one.precisions[one.most]
        alike = ", ".join(named(one.precisions[place]) for place in one.alike or ())
        cells = (network(one), f"{one.trainable_parameters}", amount(one.precisions[0].bits.value))
        rows.append((*cells, *shares(one), named(best), said(best.bits_per_byte, ".2f"), alike or "–"))
    heads = ("width, tables", "trained", "bits", *SHOWN, "most as", "bits per byte (95 %)", "not significantly less")
    return table(heads, rows)


def shares(one: Quantization) -> list[str]:
    """What is left, of the ways that are shown."""
    known = {named(row): row.left for row in one.precisions}
    return ["–" if (left := known[name]) is None else f"{left.value:.2f}" for name in SHOWN]


def by_training(soap: Quantization, adam: Quantization) -> list[str]:
    """A row for each way of filling one network."""
    rows = []
    for name, one in (("SOAP, as the protocol has it", soap), ("Adam at 0.003", adam)):
        best, kept = one.precisions[one.most], one.precisions[0]
        rows.append((name, amount(kept.bits.value), *shares(one), named(best), said(best.bits_per_byte, ".2f")))
    return table(("filled by", "bits", *SHOWN, "most as", "bits per byte (95 %)"), rows)


def by_filling(filled: Sequence[Quantization], capacity: float) -> list[str]:
    """A row for each library that one network learned."""
    rows = []
    for one in filled:
        best, kept = one.precisions[one.most], one.precisions[0]
        cells = (f"{one.library_size}", f"{kept.items.value:.0f}", f"{kept.bits.value / capacity:.0%}")
        rows.append((*cells, *shares(one), named(best), said(best.bits_per_byte, ".2f")))
    heads = ("learned", "recalled", "bits, of the capacity", *SHOWN, "most as", "bits per byte (95 %)")
    return table(heads, rows)


def section() -> str:
    """The tables and the figure."""
    full, filled, (adam,) = found("quantize"), found("quantize-filled"), found("quantize-adam")
    chart = figure()
    (same,) = (one for one in full if one.spec.model == filled[0].spec.model)
    parts = [
        *("### Full networks", ""),
        *by_precision(full),
        f"![{chart.title}](../quantize/quantization.png)\n\n**{chart.title}.** {chart.caption}\n",
        *by_network(full),
        *("### Another training", ""),
        *by_training(same, adam),
        *("### Networks that are less full", ""),
        *by_filling(filled, same.precisions[0].bits.value),
    ]
    return "\n".join(parts)


def page(text: str) -> str:
    """The page with the tables of today."""
    return filled(text, "measured", "quantize.py", section())


def main() -> None:
    """Write all of it."""
    if len(sys.argv) > 1:
        take(Path(sys.argv[1]))
    REFERENCE.write_bytes(reference())
    draw(figure(), FOLDER / "quantization.png")
    PAGE.write_text(page(PAGE.read_text()))


if __name__ == "__main__":
    main()
