"""Libraries to memorize, and the layer computed in other ways than the package does."""

from __future__ import annotations

import numpy as np
import torch

from capax.specs import Associations
from capax.tasks import associations
from capax.tasks.association_files import Examples
from capax.theory.construct.associations import Construction, build, largest_library
from capax.theory.construct.layer import Weights

Sizes = tuple[int, int, int, int]
"""n_heads, context_size, d_model, d_head."""


def library(sizes: Sizes, *, seed: int = 0, more: int = 0, **task: object) -> Examples:
    """As many random examples as the bound says, or some more."""
    n_heads, n, d, d_head = sizes
    size = largest_library(n_heads, n, d, d_head) + more
    spec = Associations(**{"context_size": n, "labels": "normal", "library_size": size, **task})
    return associations.draw(spec, size, d, np.random.default_rng(seed))


def built(sizes: Sizes, examples: Examples, seed: int = 1, **options: object) -> Construction:
    n_heads, _, _, d_head = sizes
    generator = np.random.default_rng(seed)
    return build(examples, n_heads=n_heads, d_head=d_head, generator=generator, **options)


def by_definition(weights: Weights, examples: Examples) -> np.ndarray:
    """f(E, e), one example and head at a time, keys and queries projected first, in extended precision."""
    matrices = (weights.query, weights.key, weights.value, weights.out)
    query, key, value, out = (matrix.astype(np.longdouble) for matrix in matrices)
    answers = []
    for number, e in enumerate(examples.queries.astype(np.longdouble)):
        tokens = examples.context(number).astype(np.longdouble)
        answer = np.zeros(out.shape[2], np.longdouble)
        for head in range(len(query)):
            logits = (tokens @ key[head]) @ (query[head].T @ e)
            exponentials = np.exp(logits - logits.max())
            answer += (exponentials / exponentials.sum()) @ (tokens @ value[head]) @ out[head]
        answers.append(answer)
    return np.array(answers).astype(np.float64)


def by_torch(weights: Weights, examples: Examples) -> np.ndarray:
    """The same in `torch.nn.MultiheadAttention`: heads and inputs zero-padded, its scale undone in the queries."""
    n_heads, d, d_head = weights.query.shape
    d_value, d_out = weights.out.shape[1:]
    per_head = max(d_head, d_value, -(-d // n_heads), -(-d_out // n_heads))
    width = n_heads * per_head

    def padded(matrices: np.ndarray) -> torch.Tensor:  # heads d size -> width width
        full = np.zeros((n_heads, per_head, width))
        full[:, : matrices.shape[2], : matrices.shape[1]] = matrices.transpose(0, 2, 1)
        return torch.from_numpy(full.reshape(width, width))

    with torch.random.fork_rng():
        layer = torch.nn.MultiheadAttention(width, n_heads, bias=False, batch_first=True, dtype=torch.float64)
    out = np.zeros((width, n_heads, per_head))
    out[:d_out, :, :d_value] = weights.out.transpose(2, 0, 1)
    with torch.no_grad():
        scaled = weights.query * per_head**0.5
        layer.in_proj_weight.copy_(torch.cat([padded(scaled), padded(weights.key), padded(weights.value)]))
        layer.out_proj.weight.copy_(torch.from_numpy(out.reshape(width, width)))
        contexts = np.broadcast_to(examples.contexts, (len(examples), *examples.contexts.shape[1:]))
        tokens, query = (
            torch.from_numpy(np.pad(array, [(0, 0), (0, 0), (0, width - d)]))
            for array in (contexts, examples.queries[:, None])
        )
        answers, _ = layer(query, tokens, tokens, need_weights=False)
    return answers[:, 0, :d_out].numpy()
