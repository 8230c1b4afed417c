"""Facts of the form of Nguyen 2026, "Attribute a of e is v", whose values are one token each of a given tokenizer.

python examples/lora/attributes.py BASE/tokenizer.json RELATIONS FACTS attributes.tsv
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

SPACE = "Ġ"
"""How a byte-level token says that it begins with a space."""
RELATIONS = ("name", "house", "king", "land", "word", "work", "law", "way")


def write(base: Path, relations: int, facts: int, out: Path) -> None:
    """Entities are two words, values one; all drawn uniformly, each question once."""
    generator = np.random.default_rng(0)
    vocabulary = Tokenizer.from_file(str(base / "tokenizer.json")).get_vocab()
    text = (base / "held-out.txt").read_text(encoding="utf-8")
    words = sorted({word for word in re.findall(r" ([A-Za-z]{3,})\b", text) if SPACE + word in vocabulary})
    entities = -(-facts // relations)
    pairs = generator.choice(len(words) ** 2, entities, replace=False)
    lines = ["key\trelation\tanswer"]
    for pair in pairs.tolist():
        for relation in RELATIONS[:relations]:
            value = words[int(generator.integers(len(words)))]
            lines.append(f"{words[pair // len(words)]} {words[pair % len(words)]}\t{relation}\t{value}")
    out.write_text("\n".join(lines[: facts + 1]) + "\n")
    print(f"{facts} facts, values of {len(words)} words")


if __name__ == "__main__":
    write(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
