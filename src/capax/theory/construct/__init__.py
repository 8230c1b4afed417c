"""Weights that are built, not trained, to memorize as much as theory says."""
