"""How much an adapter holds: two sources whose numbers differ four- to sixtyfold, both tasks on one and the same base.

The base is our own: a small language model of King James Bible (`base`, made as docs/how-to/lora.md says), which stays
frozen. Over it adapters learn 64 random tokens of 2048, as of Tan et al. 2026, and values of one token in sentences, as
of Nguyen 2026, both until they hold no more (protocol `capacity`).
"""
