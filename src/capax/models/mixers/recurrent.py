"""Mixers that keep a state, a matrix of keys by values: what each position reads of it is what a query asks.

`definition` is the recurrence, position by position; the other ways are the same sums over earlier positions, written
as products of matrices. Letters as in `mixer.py`.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from capax.models.mixers.mixer import Mixer, turned, with_gain
from capax.models.mixers.softmax import projected
from capax.models.operations import by_matrix, positive, sigmoid, softplus

LENGTH_EPS = 1e-6
"""Added to the square of a key's and a query's length, as flash-linear-attention does."""


class Recurrent(Mixer):
    """What these mixers have in common."""

    def projected(
        self, x: Float[Tensor, "e b n c"]
    ) -> tuple[Float[Tensor, "e b h n d"], Float[Tensor, "e b g n d"], Float[Tensor, "e b g n v"]]:
        """`heads`, with the gain in the matrices and one product for each."""
        query, key, value = (
            projected(x, with_gain(self.weights[name], self.gain)) for name in ("query", "key", "value")
        )
        if self.spec.positions == "rotary":
            query, key = turned(query), turned(key)
        return self.featured(query), self.featured(key), value

    def featured(self, x: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch d"]:
        """A query or a key as the state knows it."""
        raise NotImplementedError(f"{type(self).__name__}.featured")

    def grouped(self, x: Float[Tensor, "e b h *rest"]) -> Float[Tensor, "e b g s *rest"]:
        """The queries of each key."""
        return x.unflatten(2, (self.spec.kv_heads, -1))

    def of_gate(self, x: Float[Tensor, "e b n c"], name: str) -> Float[Tensor, "e bn g"]:
        """One number of each position and key, from its input."""
        return by_matrix(x.flatten(1, 2), with_gain(self.weights[name], self.gain))

    def by_key(self, x: Float[Tensor, "e b n c"], gate: Float[Tensor, "e bn g"]) -> Float[Tensor, "e b g n"]:
        """Each key's numbers in a row."""
        return gate.view(*x.shape[:3], -1).transpose(2, 3)

    def put_out(self, mixed: Float[Tensor, "e b g s n v"]) -> Float[Tensor, "e b n c"]:
        """What the heads found, by the output matrix."""
        e, b, g, s, n, v = mixed.shape
        flat = mixed.permute(0, 1, 4, 2, 3, 5).reshape(e, b * n, g * s * v)
        return by_matrix(flat, self.weights["out"].flatten(1, 2)).view(e, b, n, -1)


class Linear(Recurrent):
    """Linear attention: o_t = S_tᵀ φ(q_t) / (z_t · φ(q_t)), S_t = Σ φ(k_i) v_iᵀ, z_t = Σ φ(k_i), φ = 1 + elu."""

    def definition(self, x: Float[Tensor, "e b n c"]) -> Float[Tensor, "e b n c"]:
        """The recurrence."""
        query, key, value = self.heads(x)
        query, key = self.grouped(self.featured(query)), self.featured(key)
        state, weight, read = torch.zeros_like(key[..., 0, :, None] * value[..., 0, None, :]), 0 * key[..., 0, :], []
        for place in range(x.shape[2]):
            now = key[..., place, :]
            state = state + now[..., None] * value[..., place, None, :]
            weight = weight + now
            asked = query[..., place, :]
            read.append(
                torch.einsum("ebgsd,ebgdv->ebgsv", asked, state) / (asked * weight[:, :, :, None]).sum(-1, True)
            )
        return self.joined(torch.stack(read, 4).flatten(2, 3))

    def featured(self, x: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch d"]:
        """1 + elu."""
        return positive(x)

    def all_queries(self, x: Float[Tensor, "e b n c"]) -> Float[Tensor, "e b n c"]:
        """Scores of all pairs of positions, each row divided by its sum."""
        query, key, value = self.projected(x)
        return self._read(self.grouped(query), key, value)

    def last_query(self, x: Float[Tensor, "e b n c"]) -> Float[Tensor, "e b c"]:
        """Scores of the last position alone."""
        query, key, value = self.projected(x)
        return self._read(self.grouped(query[..., -1:, :]), key, value)[:, :, 0]

    def _read(
        self, query: Float[Tensor, "e b g s p d"], key: Float[Tensor, "e b g n d"], value: Float[Tensor, "e b g n v"]
    ) -> Float[Tensor, "e b p c"]:
        scores = (query @ key.mT[:, :, :, None]).tril(key.shape[-2] - query.shape[-2])
        return self.put_out((scores / scores.sum(-1, keepdim=True)) @ value[:, :, :, None])


class Delta(Recurrent):
    """The delta rule: S_t = S_{t−1} + β_t k_t (v_t − S_{t−1}ᵀ k_t)ᵀ, o_t = S_tᵀ q_t / √d, of keys of length 1."""

    def definition(self, x: Float[Tensor, "e b n c"]) -> Float[Tensor, "e b n c"]:
        """The recurrence."""
        query, key, value = self.heads(x)
        query, key = self.grouped(self.featured(query)), self.featured(key)
        rate, kept = self.rate(x), self.log_kept(x).exp()
        state, read = torch.zeros_like(key[..., 0, :, None] * value[..., 0, None, :]), []
        for place in range(x.shape[2]):
            now = key[..., place, :, None]
            state = state * kept[..., place, None, None]
            missing = value[..., place, None, :] - (now * state).sum(-2, keepdim=True)
            state = state + rate[..., place, None, None] * now * missing
            read.append(torch.einsum("ebgsd,ebgdv->ebgsv", query[..., place, :], state))
        return self.joined(torch.stack(read, 4).flatten(2, 3) * query.shape[-1] ** -0.5)

    def featured(self, x: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch d"]:
        """Of length 1."""
        return x * (x.square().sum(-1, keepdim=True) + LENGTH_EPS).rsqrt()

    def rate(self, x: Float[Tensor, "e b n c"]) -> Float[Tensor, "e b g n"]:
        """How much of what is missing is written."""
        return self.by_key(x, sigmoid(self.of_gate(x, "rate")))

    def log_kept(self, x: Float[Tensor, "e b n c"]) -> Float[Tensor, "e b g n"]:
        """Logarithm of what a state keeps of itself when a position comes."""
        return torch.zeros_like(x[:, :, None, :, 0]).expand(-1, -1, self.spec.kv_heads, -1)

    def all_queries(self, x: Float[Tensor, "e b n c"]) -> Float[Tensor, "e b n c"]:
        """What each position writes follows from a triangular system (Yang et al. 2024); queries read it at once."""
        query, key, value = self.projected(x)
        written, kept = self._written(x, key, value)
        read = (self.grouped(query) @ key.mT[:, :, :, None]) * kept[:, :, :, None]
        return self.put_out(read @ written[:, :, :, None] * query.shape[-1] ** -0.5)

    def last_query(self, x: Float[Tensor, "e b n c"]) -> Float[Tensor, "e b c"]:
        """As `all_queries`, of the last position alone."""
        query, key, value = self.projected(x)
        written, kept = self._written(x, key, value)
        read = (self.grouped(query[..., -1:, :]) @ key.mT[:, :, :, None]) * kept[:, :, :, None, -1:]
        return self.put_out(read @ written[:, :, :, None] * query.shape[-1] ** -0.5)[:, :, 0]

    def _written(
        self, x: Float[Tensor, "e b n c"], key: Float[Tensor, "e b g n d"], value: Float[Tensor, "e b g n v"]
    ) -> tuple[Float[Tensor, "e b g n v"], Float[Tensor, "e b g n n"]]:
        """What each position adds for its key, and what later ones (first axis) find left of it, 0 for earlier."""
        rate, passed = self.rate(x)[..., None], self.log_kept(x).cumsum(-1)
        since = passed[..., :, None] - passed[..., None, :]
        later = torch.ones_like(since[0, 0, 0], dtype=torch.bool).tril()
        kept = since.masked_fill(~later, -torch.inf).exp()
        known = (rate * (key @ key.mT) * kept).tril(-1)
        written = torch.linalg.solve_triangular(known, rate * value, upper=False, unitriangular=True)
        return written, kept


class GatedDelta(Delta):
    """The delta rule on a state that decays: S_{t−1} is multiplied by exp(−exp(a) softplus(x_t W + b)) first."""

    def log_kept(self, x: Float[Tensor, "e b n c"]) -> Float[Tensor, "e b g n"]:
        """Logarithm of what a state keeps of itself when a position comes."""
        # as long as rows are the second axis: sums over it are the same in any pack
        bias, scale = (self.weights[f"decay_{name}"][:, None] for name in ("bias", "scale"))
        return self.by_key(x, -scale.exp() * softplus(self.of_gate(x, "decay") + bias))
