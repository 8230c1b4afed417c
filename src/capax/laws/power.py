"""Power laws: a product of powers of numeric columns, one class for all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from capax.errors import LawError, shown
from capax.laws.censored import Solution, Vector
from capax.laws.law import Law, Structure
from capax.laws.predictor import tails
from capax.laws.rows import Columns, Rows
from capax.results import LEVEL
from capax.store import frames

TINY = float(np.finfo(float).tiny)
INFLATED = 1000.0
"""How many times the variance of an exponent may be what it were, did the logarithms of columns not rise together."""


class Factor(NamedTuple):
    """One factor of a power law: something made of columns, to a power.

    Attributes:
        exponent: the parameter's name; None for a power that is not fitted but 1.
        base: what is raised to it, in words.
        columns: what that is made of.
        log: its logarithm from those columns.
        usual: the exponent where the rows have one value only.
        above: the first column has to be larger than this, and why; None where any positive value will do.
    """

    exponent: str | None
    base: str
    columns: tuple[str, ...]
    log: Callable[..., Vector] = np.log
    usual: float = 0.0
    above: tuple[float, str] | None = None


def names_in(axes: object) -> list[str] | None:
    """The names that axes are; None where they are anything else."""
    known = isinstance(axes, Sequence) and not isinstance(axes, str) and all(isinstance(name, str) for name in axes)
    return list(axes) if known else None  # type: ignore[call-overload]


def _log_less_one(values: Vector) -> Vector:
    return np.log(np.maximum(values - 1, TINY))


class Product(Law):
    """Base of the laws that are a product of powers, C = k · Π x^e, of what they declare as `factors`.

    The logarithm of such a law is linear in its exponents: a regression of logarithms is where the fit begins, and an
    exponent of something that has one value in all rows is held at its usual value.

    Args:
        target: column of counts that is fitted when `fit` gets a table without y.
        n_bootstrap: refits behind `predict_interval`.
        random_state: seed of those.

    Attributes:
        factors: what is multiplied, in the order of the parameters.
        scale: the parameter in front.
    """

    factors: tuple[Factor, ...]
    scale: ClassVar[str] = "k"

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """The columns of X."""
        return tuple(dict.fromkeys(name for factor in self.factors for name in factor.columns))

    @property
    def names(self) -> tuple[str, ...]:
        """The factor in front, and the exponents."""
        return (self.scale, *(factor.exponent for factor in self.factors if factor.exponent is not None))

    def in_symbols(self) -> str:
        """Its product, with the names of its columns."""
        powers = (
            f"({one.base} − 1)^(−{one.exponent})"
            if one == TOKENS
            else f"{one.base}^{one.exponent if len(one.exponent or '') == 1 else '(its exponent)'}"
            for one in self.factors
        )
        return f"C = {' · '.join((self.scale, *powers))}"

    def _capacity(self, theta: Vector, columns: Columns) -> tuple[Vector, np.ndarray]:
        return self._product(theta, *self._logs(columns))

    def _capacities(self, columns: Columns) -> Callable[[Vector], tuple[Vector, np.ndarray]]:
        logs = self._logs(columns)
        return lambda theta: self._product(theta, *logs)

    def _product(self, theta: Vector, logs: np.ndarray, fixed: Vector) -> tuple[Vector, np.ndarray]:
        with np.errstate(over="ignore"):
            product = np.exp(np.clip(logs @ theta[1:] + fixed, -600, 600))
        capacity = theta[0] * product
        return capacity, np.column_stack([product, capacity[:, None] * logs])

    def _logs(self, columns: Columns) -> tuple[np.ndarray, Vector]:
        """Logarithms of what the exponents are of, `(rows, exponents)`, and of all else, `(rows,)`."""
        fixed = np.zeros(len(next(iter(columns.values()))))
        fitted = []
        for factor in self.factors:
            log = factor.log(*(columns[name] for name in factor.columns))
            if factor.exponent is None:
                fixed = fixed + log
            else:
                fitted.append(log)
        return np.column_stack(fitted) if fitted else np.empty((len(fixed), 0)), fixed

    def _structures(self, rows: Rows) -> list[Structure]:
        self._refuse(rows.columns)
        logs, fixed = self._logs(rows.columns)
        free, held, exponents = np.ptp(logs, axis=0) > 0, {}, np.empty(logs.shape[1])
        for place, factor in enumerate(factor for factor in self.factors if factor.exponent is not None):
            exponents[place] = 0.0 if free[place] else factor.usual
            if not free[place]:
                value = f" ({rows.columns[factor.base][0]:g})" if factor.base in rows.columns else ""
                held[self.names[1 + place]] = (
                    factor.usual,
                    f"one value of {factor.base} only{value}; held at {factor.usual:g}",
                )
        rest = np.log(rows.counts) - fixed - logs @ exponents
        found, *_ = np.linalg.lstsq(np.column_stack([np.ones(len(logs)), logs[:, free]]), rest)
        exponents[free] = found[1:]
        return [Structure(held, [dict(zip(self.names, (float(np.exp(found[0])), *exponents.tolist()), strict=True))])]

    def _not_told(self, solution: Solution) -> dict[str, str]:
        """Also exponents of what nearly follows from other columns; and the factor in front, which depends on them."""
        found = super()._not_told(solution)
        rows = self.rows_.take(~self.rows_.complete)
        factors = [factor for factor in self.factors if factor.exponent is not None]
        free = [place for place, factor in enumerate(factors) if factor.exponent in solution.free]
        logs = self._logs(rows.columns)[0]
        logs = logs - logs.mean(axis=0)
        for place in free:
            others = [other for other in free if other != place]
            total = float(logs[:, place] @ logs[:, place])
            if not others or not total:
                continue
            share, *_ = np.linalg.lstsq(logs[:, others], logs[:, place])
            apart = logs[:, place] - logs[:, others] @ share
            if total > INFLATED * float(apart @ apart):
                with_ = factors[others[int(np.argmax(np.abs(share) * np.ptp(logs[:, others], axis=0)))]].base
                why = f"{factors[place].base} rises with {with_} in these rows: only a combination of both shows"
                found.setdefault(self.names[1 + place], why)
                found.setdefault(self.scale, "it depends on exponents that are not determined")
        return found

    def _refuse(self, columns: Columns) -> None:
        for factor in self.factors:
            if factor.above is None:
                continue
            name, (least, why) = factor.columns[0], factor.above
            if (columns[name] <= least).any():
                raise LawError(f"{name}: above {least:g} for this law ({why}), got {columns[name].min():g}")


TOKENS = Factor(
    *("p", "seq_len", ("seq_len",), lambda seq_len: -_log_less_one(seq_len), 1.0),
    above=(1.0, "a sequence of one token has nothing to recall"),
)
HEADS = Factor("q", "n_heads", ("n_heads",))
WIDTH = Factor("r", "d_model", ("d_model",), usual=1.0)
LAYERS = Factor("s", "n_layers", ("n_layers",))
NAMED = {factor.base: factor for factor in (TOKENS, HEADS, WIDTH, LAYERS)}


class PowerLaw(Product):
    """C = k · (N − 1)^(−p) · H^q · B^r: the fewest parameters that bend in each direction.

    N is `seq_len`, H `n_heads`, B `d_model`. p = 1 means that a number of tokens is remembered, however they are cut
    into sequences; r > 1 that capacity grows faster than linearly with the width. Ours: the paper has no such law.

    With `axes` it is a power law of other columns: each has an exponent of its name, but p, q, r and s are those of
    1 / (N − 1), `n_heads`, `d_model` and `n_layers`.

    Args:
        axes: numeric columns that it depends on, fields of a model of your own among them; those above when not given.
        target: column of counts that is fitted when `fit` gets a table without y.
        n_bootstrap: refits behind `predict_interval`.
        random_state: seed of those.
    """

    name: ClassVar[str] = "power"

    def __init__(
        self,
        *,
        axes: Sequence[str] | None = None,
        target: str = "memorized_above_chance",
        n_bootstrap: int = 1000,
        random_state: int = 0,
    ) -> None:
        super().__init__(target=target, n_bootstrap=n_bootstrap, random_state=random_state)
        self.axes = axes

    @property
    def factors(self) -> tuple[Factor, ...]:  # type: ignore[override]
        """What is multiplied.

        Raises:
            LawError: for axes that are no names, that repeat, or that are called as another axis' exponent.
        """
        if self.axes is None:
            return (TOKENS, HEADS, WIDTH)
        axes = names_in(self.axes)
        if not axes or len(set(axes)) < len(axes) or "" in axes:
            raise LawError(f"axes: names of columns, each once, got {shown(self.axes)}")
        found = tuple(NAMED.get(name, Factor(name, name, (name,))) for name in axes)
        parameters = [self.scale, *(factor.exponent for factor in found)]
        if twice := [name for name in axes if parameters.count(name) > 1]:
            raise LawError(f"axes: the law has another parameter {twice[0]!r}; give that column another name")
        return found

    @property
    def form(self) -> str | None:
        """What it says in symbols, with the names of its columns where they were chosen."""
        return super().form if self.axes is None else self.in_symbols()

    def _chosen_by(self) -> str | None:
        return None if self.axes is None else "axes"


class DepthLaw(Product):
    """C = k · (N − 1)^(−p) · H^q · B^r · L^s: the power law with depth L (`n_layers`).

    The paper fits one and two layers apart and leaves depth open; s says how much of a layer's capacity another adds.
    """

    name: ClassVar[str] = "depth"
    factors = (TOKENS, HEADS, WIDTH, LAYERS)


class AssociationLaw(Product):
    """C = k · H^a · (n − 1)^b · min(d_head, n)^c · d^g: what a trained attention layer remembers of associations.

    H is `n_heads`, n `context_size`, d `d_model`. The bound of Mahdavi et al. 2024, H (min(n, d_head) − 1) + 1, grows
    with H and min(n, d_head) alone; here the data decide. As in the paper a head size beyond n adds nothing. One token
    takes all attention: nothing depends on the query, and the law has no value there. The form is ours.
    """

    name: ClassVar[str] = "association"
    items: ClassVar[str] = "associations"
    beyond: ClassVar[str | None] = "n_heads"
    factors = (
        Factor("a", "n_heads", ("n_heads",), usual=1.0),
        Factor("b", "context_size", ("context_size",), _log_less_one, 1.0, (1, "one token takes all attention")),
        Factor("c", "min(d_head, context_size)", ("d_head", "context_size"), lambda d, n: np.log(np.minimum(d, n))),
        Factor("g", "d_model", ("d_model",)),
    )


class BitsLaw(Product):
    """C · bits = k · P: each of P trainable parameters holds k bits, however they are arranged.

    A sequence costs (seq_len − 1) · log2(vocab_size) bits when the loss covers all positions and log2(vocab_size) when
    it covers the last. The literature has constants for k (about 2 for knowledge in language models, 3.6 for random
    strings); here k is fitted, and its failure to be one number is what the other laws explain.

    Args:
        loss: positions that the training asked for, `all` or `last`.
        target: column of counts that is fitted when `fit` gets a table without y.
        n_bootstrap: refits behind `predict_interval`.
        random_state: seed of those.
    """

    name: ClassVar[str] = "bits"
    counts: ClassVar[tuple[str, ...]] = ("items",)

    def __init__(
        self,
        *,
        loss: Literal["all", "last"] = "all",
        target: str = "memorized_above_chance",
        n_bootstrap: int = 1000,
        random_state: int = 0,
    ) -> None:
        super().__init__(target=target, n_bootstrap=n_bootstrap, random_state=random_state)
        self.loss = loss

    @property
    def factors(self) -> tuple[Factor, ...]:  # type: ignore[override]
        """Parameters per bit of a sequence."""
        columns = ("seq_len", "vocab_size", "trainable_parameters")
        above = (1.0, "a sequence of one token has nothing to recall") if self.loss == "all" else None
        return (Factor(None, "parameters per bit", columns, self._per_bit, above=above),)

    def _refuse(self, columns: Columns) -> None:
        super()._refuse(columns)
        if (columns["vocab_size"] <= 1).any():
            raise LawError("vocab_size: above 1 for this law (one token says nothing), got 1")

    def _per_bit(self, seq_len: Vector, vocab_size: Vector, parameters: Vector) -> Vector:
        tokens = seq_len - 1 if self.loss == "all" else 1.0
        return np.asarray(np.log(parameters / (tokens * np.log2(vocab_size))))

    def _structures(self, rows: Rows) -> list[Structure]:
        stated = self.domain_.protocol.get("loss", self.loss)
        if self.loss not in ("all", "last") or stated != self.loss:
            raise LawError(f"loss: the rows were trained on {stated!r} positions, the law is for {self.loss!r}")
        return super()._structures(rows)


class RelationLaw(Product):
    """D_K* = c · (m' log2 m' / d)^s · (m'/m)^(−t): the key dimension at which m' relations of m items are recognized.

    m' is `n_edges`, m `n_items`, d `d_model`. The paper's law has s = 1 and t = 0; c, s and t are fitted here (log
    residuals), t where the data have graphs of more or fewer edges than items. Such ratios, loads m' log2 m' / d, and
    kinds of graphs, are part of its domain.

    Args:
        target: column of total key dimensions that is fitted when `fit` gets a table without y.
        n_bootstrap: refits behind `predict_interval`.
        random_state: seed of those.
    """

    name: ClassVar[str] = "relation"
    items: ClassVar[str] = "edges"
    needed_for: ClassVar[str | None] = "n_edges"
    found: ClassVar[tuple[str, ...]] = ("n_heads", "d_head")
    mixed: ClassVar[tuple[str, ...]] = ("graph",)
    scale: ClassVar[str] = "c"
    logarithm: ClassVar[bool] = True

    def __init__(self, *, target: str = "total_key_dim", n_bootstrap: int = 1000, random_state: int = 0) -> None:
        super().__init__(target=target, n_bootstrap=n_bootstrap, random_state=random_state)

    @property
    def factors(self) -> tuple[Factor, ...]:  # type: ignore[override]
        """The load of a channel."""
        above = (1, "log 1 is 0") if self.logarithm else None
        return (
            Factor("s", "the load", ("n_edges", "d_model"), self._log_load, 1.0, above),
            Factor("t", "items per edge", ("n_items", "n_edges"), lambda n_items, n_edges: np.log(n_items / n_edges)),
        )

    def bounded(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """Also edges per item, and the load."""
        return {**columns, "edges_per_item": columns["n_edges"] / columns["n_items"], "load": self.load(columns)}

    def predict(self, X: Any) -> Vector:
        """As of any law, and no less than `least`."""
        return np.maximum(super().predict(X), self.least(self._columns_of(frames.taken(X))))

    def quantiles(self, X: Any, probabilities: Sequence[float]) -> list[Vector]:
        """As of any law, and no less than `least`."""
        least = self.least(self._columns_of(frames.taken(X)))
        return [np.maximum(one, least) for one in super().quantiles(X, probabilities)]

    def new_measurements(self, X: Any) -> np.ndarray:
        """As of any law, and no less than `least`."""
        return np.maximum(super().new_measurements(X), self.least(self._columns_of(frames.taken(X))))

    def remarks(self, columns: Columns) -> list[str]:
        """That a least is known, where the law or the low end of its interval would be below."""
        floor = self.least(columns)
        below = super().quantiles(columns, (tails(LEVEL)[0],))[0] < floor
        return [f"no less than {floor[below].max():g}, which graphs with three edges apart need"] if below.any() else []

    def least(self, columns: Columns) -> Vector:
        """2 for more than two edges, else 1: what graphs with three edges apart need, as those of the data do.

        Edges are apart where sources and targets of different ones are different items and no edges. One head of one
        channel has scores q_s k_t, so that the product of two edges' scores is that of the crossed pairs, which are at
        most the threshold. From 0 on, q_s and k_t of an edge have one sign, two of three edges have the same, and the
        product of their crossed pairs, both positive, would be too small. Below 0 crossed pairs are negative: their
        product, at least the threshold's square, lets no two edges be negative, and of three positive ones two have the
        same signs, and positive crossed pairs.
        """
        return np.where(columns["n_edges"] > 2, 2.0, 1.0)

    def _log_load(self, n_edges: Vector, d_model: Vector) -> Vector:
        return np.asarray(np.log(np.maximum(self.load({"n_edges": n_edges, "d_model": d_model}), TINY)))

    def load(self, columns: Mapping[str, Any]) -> Vector:
        """The load m' log2 m' / d, or m'/d."""
        edges = columns["n_edges"]
        return edges * (np.log2(edges) if self.logarithm else 1.0) / columns["d_model"]


class LinearRelationLaw(RelationLaw):
    """D_K* = c · (m'/d)^s · (m'/m)^(−t): the law of relations without its logarithm.

    Args:
        target, n_bootstrap, random_state: as of `RelationLaw`.
    """

    name: ClassVar[str] = "relation-linear"
    logarithm: ClassVar[bool] = False
