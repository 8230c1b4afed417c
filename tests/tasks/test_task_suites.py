"""Every task of capax passes the suite that a plugin's author inherits."""

import capax
from capax.testing import TaskSuite

SEQUENCES = capax.Sequences(seq_len=5, vocab_size=7, library_size=30)
ATTENTION = capax.AssociativeAttention(n_heads=2, d_model=6, d_head=4)
ASSOCIATIONS = capax.Associations(context_size=3, library_size=20, n_classes=4)


class TestSequences(TaskSuite):
    task = SEQUENCES


class TestSequencesByTheLastToken(TaskSuite):
    task = SEQUENCES.replace(loss="last")


class TestSequencesByEveryToken(TaskSuite):
    task = SEQUENCES.replace(recall="all")


class TestSequencesAfterATokenOfTheirOwn(TaskSuite):
    task = SEQUENCES.replace(bos=True)


class TestEveryPrefix(TaskSuite):
    task = capax.Sequences(seq_len=3, vocab_size=4, library="all")


class TestAssociations(TaskSuite):
    task = ASSOCIATIONS
    model = ATTENTION


class TestAssociationsOfFreshContexts(TaskSuite):
    task = ASSOCIATIONS.replace(contexts="fresh")
    model = ATTENTION.replace(profile="mahdavi2024")


class TestRealLabels(TaskSuite):
    task = capax.Associations(context_size=3, library_size=20, labels="normal", d_out=2)
    model = ATTENTION.replace(d_value=3)


class TestRelations(TaskSuite):
    task = capax.Relations(n_items=8)
    model = capax.KeyQueryChannel(d_model=4, d_head=2)


class TestRelationsInContexts(TaskSuite):
    task = capax.Relations(n_items=12, graph="permutation")
    model = capax.KeyQueryChannel(d_model=4, d_head=2, channel="softmax")
