"""Mahdavi, Liao, Thrampoulidis 2024 (arXiv 2306.02010): every theorem, figure and table as a recipe.

The paper's text was not available to us: its statements are known from those who restate it, its grids and training
from the authors' code. Its figures plot accuracies of which only trends are known to us; the small and demo scales,
which are ours, look for the same trends.
"""
