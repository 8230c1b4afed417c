"""Draws small architectures that differ in all that a law of capacity may depend on: those that it is fitted to, and
others that it never sees.

python examples/capacity_varied.py varied > examples/capacity-varied.toml
python examples/capacity_varied.py unseen > examples/capacity-unseen.toml

The capacity-varied.toml that is kept was drawn by an earlier version of capax, which counted effective parameters and
items otherwise; today some others are drawn.

They are drawn at random, as many in each octave of effective parameters, of those that take little time.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

import capax

OCTAVES, FEWEST = 5, 600
"""Of effective parameters, and their smallest number."""
CHOICES: dict[str, tuple[Any, ...]] = {
    "d_model": (16, 24, 32, 48, 64, 96, 128),
    "n_heads": (1, 2, 3, 4, 6, 8),
    "d_head": (4, 8, 16, 32),
    "n_layers": (1, 1, 2, 2, 3, 4),
    "ffn": ("mlp", "mlp", "none"),
    "seq_len": (4, 6, 8, 12, 16, 24, 32, 48, 64),
    "vocab_size": (16, 32, 64, 128, 256, 512, 1024, 2048),
    "loss": ("all", "all", "last"),
    "tables": ("frozen", "frozen", "trained"),
}


@dataclass(frozen=True)
class Study:
    """What is drawn.

    Attributes:
        seconds: of processor time that one may take, by a rough estimate of 2000 steps of three restarts.
        about: the comment above the study.
    """

    seed: int
    in_an_octave: int
    seconds: float
    libraries: tuple[int, ...]
    about: str


STUDIES = {
    "varied": Study(
        *(0, 12, 200, (0, 1)),
        """\
# 60 small architectures at convergence on two libraries, drawn by examples/capacity_varied.py; some five hours of
# a processor each.""",
    ),
    "unseen": Study(
        *(1, 6, 200, (0,)),
        """\
# 30 small architectures at convergence, drawn by examples/capacity_varied.py from the same choices as those of
# capacity-varied.toml. No law is fitted to them: what the law said of them before is held against what they hold.""",
    ),
}
HEADER = """\
{about}
store = "{name}.db"

[task]

[model]

[protocol]
protocol = "capacity"

[grid]
seed = {libraries}

[[zip]]"""


def drawn(generator: np.random.Generator) -> dict[str, Any]:
    """The fields of one run."""
    fields = {name: values[generator.integers(len(values))] for name, values in CHOICES.items()}
    trained = fields.pop("tables") == "trained"
    return fields | {"embeddings": "trained" if trained else "frozen", "readout": "tied" if trained else "frozen"}


def octave(fields: dict[str, Any], seconds: float) -> int | None:
    """Of its effective parameters; None where it costs too much, or has too few prefixes or items."""
    of_task = {name: fields[name] for name in ("seq_len", "vocab_size", "loss")}
    model = capax.Transformer(**{name: value for name, value in fields.items() if name not in of_task})
    task = capax.Run(task=capax.Sequences(**of_task), model=model, protocol=capax.Capacity()).task
    sizes, size, context = task.sizes(), task.library_size, task.seq_len - 1
    scored = size * (context if task.loss == "all" else 1)
    step = size * context * (4e-7 + 2e-10 * model.built_counts(**sizes)["trainable"])
    step += scored * task.vocab_size * (4e-9 + 4e-11 * model.d_model)
    if 3 * 2000 * step > seconds or not 20 <= size < task.largest_library / 2:
        return None
    return int(np.floor(np.log2(model.effective_parameters(**sizes) / FEWEST)))


def main(name: str) -> None:
    study = STUDIES[name]
    generator, found = np.random.default_rng(study.seed), [list[dict[str, Any]]() for _ in range(OCTAVES)]
    while any(len(kept) < study.in_an_octave for kept in found):
        fields = drawn(generator)
        at = octave(fields, study.seconds)
        if at is not None and 0 <= at < OCTAVES and len(found[at]) < study.in_an_octave and fields not in found[at]:
            found[at].append(fields)
    runs = [fields for kept in found for fields in kept]
    print(HEADER.format(about=study.about, name=name, libraries=list(study.libraries)))
    for name in runs[0]:
        print(f"{name} = {json.dumps([fields[name] for fields in runs])}")


if __name__ == "__main__":
    main(sys.argv[1])
