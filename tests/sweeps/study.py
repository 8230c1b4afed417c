"""A study of twelve runs in four packs, for sweeps that are stopped, killed and divided."""

STUDY = """
store = "s.db"
[task]
seq_len = 4
vocab_size = 10
library_size = 60
[model]
d_head = 8
[training]
max_epochs = {epochs}
patience = 1000
[protocol]
restarts = 2
[grid]
d_model = [8, 12]
n_heads = [1, 2]
seed = [0, 1, 2]
"""
