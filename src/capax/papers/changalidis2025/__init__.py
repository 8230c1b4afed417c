"""Changalidis and Härmä 2025 (arXiv 2506.14704): what a plateau of memorized triples of SNOMED CT is the plateau of.

The triples need a licence (UMLS), so ours are made (`triples`). As in the paper's code each concept and property has
one answer; so many concepts have two properties that one answer for each concept is 88.2 % of the facts, the paper's
plateau. That ceiling is chosen, and all other sizes are ours. The network of the code is restated in `model`. capax
does not measure it, since a fact's answer depends on the others of its batch, so `fault` trains it as the code does.
"""
