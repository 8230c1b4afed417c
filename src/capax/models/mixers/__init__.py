"""Sequence mixers: how the positions of a block exchange information."""
