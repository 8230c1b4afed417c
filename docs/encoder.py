"""Draws the curves of a trained encoder in assumptions.md: `python docs/encoder.py`, with the packages named there."""

from __future__ import annotations

from pathlib import Path

from capax.figures.drawing import draw
from capax.figures.independence import chart
from capax.papers.mahdavi2024.encoder import PRECISIONS, checked

if __name__ == "__main__":
    for precision in PRECISIONS:
        draw(chart(checked(5000, precision)), Path(__file__).parent / "images" / f"encoder-{precision}.png", "figure")
