"""Morris et al. 2025 (arXiv 2505.24832), what it says of random tokens: its networks, its densities, its plateau.

Networks are ours with a token table that is the read-out and a token before each sequence: gains without biases in
place of norms with them, and no biases in attention, so that they have up to 0.7 % fewer parameters, or 0.1 % more.
The paper trains a million steps; below its scale ours are trained for minutes, and the protocol extrapolates to eight
times as many.
"""
