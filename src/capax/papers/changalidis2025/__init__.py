"""Changalidis and Härmä 2025 (arXiv 2506.14704): what a plateau of memorized triples of SNOMED CT is the plateau of.

The triples need a licence (UMLS), so ours are made (`triples`): as in the paper's code each concept and property has one
answer, and as many concepts have several properties as bring one answer for each concept to 88.2 % of the facts. That
share is the paper's plateau; that no concept has more than two properties, and all other sizes, are ours. The network of
the code is restated in `network`; capax does not measure it, since its facts depend on the others of their batch, so
`fault` trains it as the code does.
"""
