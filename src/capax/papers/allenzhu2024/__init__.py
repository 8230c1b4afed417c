"""Allen-Zhu and Li 2024 (arXiv 2404.05405): bits a parameter of synthetic biographies by exposures.

People are tokens here (`capax.Biographies`), not sentences, and networks are of thousands of parameters below the
paper's scale, with a batch of people in place of a window of 512 tokens. The paper's optimizer is AdamW; ours is SOAP,
with Adam beside it.
"""
