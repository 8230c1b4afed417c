"""Härmä, Pietrasik, Wilbik 2024 (arXiv 2407.15425): every figure and table as a recipe.

What is not known of the paper (its vocabulary, the positions of its loss, widths, stop rule) is ours at every scale;
the paper scale has its library, batch and restarts, and the grid that fits what it says best.
"""
