"""Theory that runs: bounds of memory capacity, the weights that reach them, and what to look for in trained ones."""
