"""Härmä, Pietrasik, Wilbik 2024 (arXiv 2407.15425): every figure and table as a recipe.

What the paper leaves open (its vocabulary, the positions of its loss, widths, stop rule) is ours at every scale; the
paper scale has its library, batch and restarts, and the grid that fits what it says best.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from capax.laws.ecm import ECM
from capax.papers import harma2024_arithmetic as arithmetic
from capax.papers import harma2024_verdicts as judge
from capax.papers.recipe import Claim, Recipe, Scale, Study, unknown
from capax.specs import Mac, Mls, Run, Sequences, Shatter, Training, Transformer

PAPER = "harma2024"
LIBRARY: dict[Scale, int] = {"demo": 500, "small": 2000, "paper": 16_000}
TRAINING: dict[Scale, Training] = {
    "demo": Training(max_epochs=150, batch_size=128),
    "small": Training(max_epochs=150),
    "paper": Training(),
}
RESTARTS: dict[Scale, int] = {"demo": 2, "small": 3, "paper": 5}


def _run(
    scale: Scale, seq_len: int, restarts: int | None = None, training: Training | None = None, **sizes: Any
) -> Run:
    return Run(
        task=Sequences(seq_len=seq_len, library_size=LIBRARY[scale]),
        model=Transformer(**sizes),
        training=training or TRAINING[scale],
        protocol=Mac(restarts=restarts or RESTARTS[scale]),
    )


def _grid(scale: Scale) -> tuple[Run, ...]:
    axes: dict[Scale, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = {
        "demo": ((4, 8, 12), (1, 2, 3), (8, 16, 24)),
        "small": ((8, 16, 32), (1, 2, 3, 4), (16, 32, 48, 64)),
        "paper": ((8, 16, 32, 64, 128), (1, 2, 3, 4, 5), (16, 32, 64, 128, 256, 512)),
    }
    return tuple(_run(scale, n, n_heads=heads, d_model=width) for n, heads, width in product(*axes[scale]))


def _ffn(scale: Scale) -> tuple[Run, ...]:
    widths: dict[Scale, tuple[int, ...]] = {
        "demo": (8, 24),
        "small": (16, 32, 64),
        "paper": (16, 32, 64, 128, 256, 512),
    }
    restarts = {"demo": 3, "small": 5, "paper": 5}[scale]
    return tuple(
        _run(scale, 8, restarts=restarts, n_layers=2, n_heads=2, d_model=width, ffn=ffn)
        for width, ffn in product(widths[scale], ("mlp", "identity"))
    )


def _mls_mac(scale: Scale) -> tuple[Run, ...]:
    """Trainings without a budget: a search that ends early says nothing of what could be memorized whole."""
    widths: dict[Scale, tuple[int, ...]] = {"demo": (8, 16), "small": (8, 16, 32), "paper": (16, 32, 64, 128)}
    library: dict[Scale, int] = {"demo": 200, "small": 1000, "paper": 16_000}
    search: dict[Scale, Mls] = {
        "demo": Mls(first_size=4, seeds=8, max_trainings=16, interval_width=0.5),
        "small": Mls(first_size=4, seeds=8, max_trainings=48, interval_width=0.2),
        "paper": Mls(),
    }
    found = []
    for width in widths[scale]:
        of: dict[str, Any] = {
            "task": Sequences(seq_len=4 if scale == "demo" else 8, library_size=library[scale]),
            "model": Transformer(d_model=width),
        }
        found += [Run(**of, protocol=search[scale]), Run(**of, protocol=Mac(restarts=RESTARTS[scale]))]
    return tuple(found)


def _shatter(scale: Scale) -> tuple[Run, ...]:
    """The paper's own sizes at every scale: only the number of trials differs."""
    trials = {"demo": 60, "small": 300, "paper": 1000}[scale]
    return (
        Run(
            task=Sequences(seq_len=8, library_size=16),
            model=Transformer(d_model=16),
            training=Training(),
            protocol=Shatter(trials=trials),
        ),
    )


def _batches(scale: Scale) -> tuple[Run, ...]:
    """To the plateau, without a budget: of a budget small batches would have more steps."""
    sizes: dict[Scale, tuple[int, ...]] = {
        "demo": (16, 64, 200),
        "small": (32, 128, 512, 1000),
        "paper": (32, 64, 128, 256, 512, 1024),
    }
    lengths: dict[Scale, tuple[int, ...]] = {"demo": (8,), "small": (8,), "paper": (32, 128)}
    library: dict[Scale, int] = {"demo": 200, "small": 1000, "paper": 16_000}
    width = {"demo": 8, "small": 16, "paper": 64}[scale]
    return tuple(
        Run(
            task=Sequences(seq_len=n, library_size=library[scale]),
            model=Transformer(n_heads=2, d_model=width),
            training=Training(batch_size=size),
            protocol=Mac(restarts=5),
        )
        for n, size in product(lengths[scale], sizes[scale])
    )


def _coefficients(scale: Scale) -> tuple[Run, ...]:
    amount: dict[Scale, int] = {"demo": 25_000, "small": 80_000, "paper": 2_000_000}
    length: dict[Scale, int] = {"demo": 8, "small": 16, "paper": 64}
    return tuple(
        _run(
            scale,
            length[scale],
            restarts=3 if scale == "demo" else 5,
            n_heads=heads,
            d_model=arithmetic.width_of(amount[scale], heads),
        )
        for heads in (2, 4)
    )


SCALES: tuple[Scale, ...] = ("demo", "small", "paper")
HOUR = 3600.0
GRID = Study(
    "grid", {s: _grid(s) for s in SCALES}, {"demo": 60, "small": 2000, "paper": 600 * HOUR}, ECM(n_bootstrap=200)
)
FFN = Study("ffn", {s: _ffn(s) for s in SCALES}, {"demo": 30, "small": 540, "paper": 10 * HOUR})
MLS_MAC = Study("mls-mac", {s: _mls_mac(s) for s in SCALES}, {"demo": 40, "small": 1050, "paper": 100 * HOUR})
SHATTER = Study("shatter", {s: _shatter(s) for s in SCALES}, {"demo": 30, "small": 150, "paper": 500})
BATCHES = Study("batches", {s: _batches(s) for s in SCALES}, {"demo": 20, "small": 130, "paper": 20 * HOUR})
COEFFICIENTS = Study(
    "coefficients", {s: _coefficients(s) for s in SCALES}, {"demo": 10, "small": 770, "paper": 40 * HOUR}
)

RECIPES = (
    Recipe(
        PAPER,
        "hopfield",
        "thought experiment: a large model as a Hopfield network",
        (
            Claim("n/(2 ln n) sequences for 175 billion nodes", "3.4 billion", "derived", arithmetic.hopfield),
            Claim("the training data are a few percent of that", "about 7 %", "derived", arithmetic.hopfield_share),
            Claim(
                "a model of 175 billion parameters is such a network",
                "3.4 billion",
                "derived",
                arithmetic.hopfield_nodes,
            ),
        ),
    ),
    Recipe(
        PAPER,
        "chance",
        "eq. 7 and 8: right guesses",
        (
            Claim(
                "more than 40 right guesses are very unlikely",
                "40",
                "read",
                unknown("library and vocabulary of this example are not known to us; M/T is in every measurement"),
            ),
        ),
    ),
    Recipe(
        PAPER,
        "figure-1",
        "the network",
        (
            Claim(
                "token table and read-out are frozen, attention and FFN trained",
                None,
                "read",
                arithmetic.frozen,
                scaled=False,
            ),
        ),
        GRID,
    ),
    Recipe(
        PAPER,
        "figure-2",
        "FFN trained or the identity (two layers, two heads)",
        (
            Claim("the two hold as much at small widths", None, "read", judge.ffn_alike),
            Claim("the frozen one holds more at large widths", None, "read", judge.ffn_frozen_higher),
        ),
        FFN,
        chart="ffn",
    ),
    Recipe(
        PAPER,
        "figure-3",
        "trainable parameters",
        (Claim("L(8B² + 4DHB + 7B) + B are trained", None, "reconstructed", arithmetic.parameters, scaled=False),),
        GRID,
    ),
    Recipe(
        PAPER,
        "figure-4",
        "MLS and MAC against width",
        (
            Claim("MAC is MLS and the guesses M/T", None, "read", judge.mac_is_mls_and_guesses),
            Claim("without guesses MAC is below MLS at large widths", None, "read", judge.mac_below_mls),
        ),
        MLS_MAC,
        chart="mac-mls",
    ),
    Recipe(
        PAPER,
        "figure-5",
        "epochs until 16 sequences are memorized whole",
        (Claim("they follow a negative binomial", None, "read", judge.negative_binomial, scaled=False),),
        SHATTER,
        chart="shatter",
    ),
    Recipe(
        PAPER,
        "figure-6",
        "batch size",
        (
            Claim("small batches memorize less", None, "read", judge.small_batches_lower),
            Claim("nothing changes from batch 512 on", None, "read", judge.flat_beyond),
        ),
        BATCHES,
        chart="batch-size",
    ),
    Recipe(
        PAPER,
        "figure-7",
        "memorized against width, ECM and polynomial",
        (
            Claim("the count rises linearly in width until it saturates", None, "read", judge.linear_in_width),
            Claim("the ECM's error is below the polynomial's", "0.497 against 1.0785", "read", judge.beats_polynomial),
        ),
        GRID,
        chart="width",
    ),
    Recipe(
        PAPER,
        "figure-8",
        "measured against predicted",
        (Claim("the ECM is off by half of a count on the mean", "0.497", "read", judge.within_half),),
        GRID,
        chart="measured-predicted",
    ),
    Recipe(
        PAPER,
        "figure-9",
        "slopes of memorized on width",
        (
            Claim("slopes fall with the sequence's length", None, "read", judge.falls_with_length),
            Claim(
                "one head remembers a constant number of tokens: its slope is as 1/(N − 1)",
                "86 to 92 tokens a channel",
                "derived",
                judge.constant_tokens,
            ),
            Claim("more heads lose less with length (b < 0)", "-0.13", "read", judge.heads_slow_the_decay),
        ),
        GRID,
        chart="slopes",
    ),
    Recipe(
        PAPER,
        "figure-10",
        "a head count that was held out",
        (
            Claim(
                "the ECM's error there is below the polynomial's",
                None,
                "reconstructed",
                judge.beats_polynomial_held_out,
            ),
        ),
        GRID,
        chart="held-out-heads",
    ),
    Recipe(
        PAPER,
        "figure-11",
        "capacity against coefficients at 64 tokens",
        (
            Claim(
                "two and four heads at two million coefficients",
                "1600 and 3300",
                "read",
                arithmetic.figure_11,
                scaled=False,
            ),
            Claim("four heads hold more than two of as many coefficients", None, "read", judge.heads_hold_more),
        ),
        COEFFICIENTS,
        chart="parameters",
    ),
    Recipe(
        PAPER,
        "table-1",
        "parameters of the ECM",
        (
            Claim("the parameters of one layer", "a 145.27, b -0.13, c 1.29, …", "read", judge.table_1),
            Claim("C = max(fB, αH + β) (eq. 11)", "max", "read", judge.as_printed, scaled=False),
            Claim(
                "the row of two layers gives their capacity",
                "a 2.45, …, e -29.08",
                "read",
                arithmetic.two_layers,
                scaled=False,
            ),
        ),
        GRID,
    ),
)
