"""What a trained memory of sequences is like inside: cues, corruption, symmetry, ablations."""
