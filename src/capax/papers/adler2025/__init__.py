"""Adler 2025 (arXiv 2509.22840): every figure and theorem as a recipe.

The paper's abstract and captions were available to us, its body was not: grids, training and constants are ours at
every scale, and so are the algorithms behind the explicit weights.
"""
