"""By what a module divides its attention scores, seen while it runs: from the calls of torch's functions that it makes.

A number that a tensor was multiplied by is carried along from queries, keys or their products to the softmax. Scaled
dot-product attention and multi-head attention of torch say their scale themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode, resolve_name

PRODUCTS = ("matmul", "bmm", "__matmul__", "__rmatmul__", "einsum", "mm")
TIMES = ("mul", "multiply", "__mul__", "__rmul__", "mul_", "__imul__")
OVER = ("div", "true_divide", "divide", "div_", "__truediv__", "__itruediv__")
KEPT = (
    "add", "add_", "__add__", "__radd__", "__iadd__", "sub", "__sub__", "__isub__", "masked_fill", "masked_fill_",
    "where", "tril", "transpose", "permute", "view", "reshape", "contiguous", "clone", "float", "double", "to", "type",
    "swapaxes", "unsqueeze", "squeeze", "expand", "flatten", "unflatten", "__getitem__", "movedim",
    "T", "mT", "H", "mH",
)  # fmt: skip
"""Functions that change no scale: masks and biases are added, axes are moved."""


@dataclass(frozen=True)
class Scores:
    """Attention scores that were seen.

    Attributes:
        d_head: channels of a query and a key.
        factor: what their product was multiplied by.
        queries: the queries' channels, all heads together; None where it was not seen.
    """

    d_head: int
    factor: float
    queries: int | None


@dataclass(frozen=True)
class _Seen:
    """A tensor that a number was multiplied into; `d_head` where it is a product of two others."""

    factor: float
    d_head: int | None = None
    queries: int | None = None


class _Watch(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.scores: list[Scores] = []
        self._seen: dict[int, _Seen] = {}
        self._alive: list[Tensor] = []  # so that no id is used again

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        named = resolve_name(func) or getattr(func, "__name__", "")
        name = named.removesuffix(".__get__").rsplit(".", 1)[-1]  # a property, such as Tensor.mT
        if func is F.multi_head_attention_forward:
            width, heads = args[3], args[4]
            self.scores.append(Scores(width // heads, (width // heads) ** -0.5, width))
        elif name == "scaled_dot_product_attention":
            query = kwargs["query"] if "query" in kwargs else args[0]
            scale = kwargs.get("scale")
            before = self._of(query).factor * self._of(kwargs["key"] if "key" in kwargs else args[1]).factor
            d_head = query.shape[-1]
            self.scores.append(Scores(d_head, before * (d_head**-0.5 if scale is None else scale), _width(query)))
        elif name in ("softmax", "_softmax") and args and self._of(args[0]).d_head is not None:
            seen = self._of(args[0])
            assert seen.d_head is not None
            self.scores.append(Scores(seen.d_head, seen.factor, seen.queries))
        found = func(*args, **kwargs)
        self._follow(name, args, found)
        return found

    def _of(self, value: Any) -> _Seen:
        return self._seen.get(id(value), _Seen(1.0))

    def _note(self, tensor: Any, seen: _Seen) -> None:
        if isinstance(tensor, Tensor):
            self._seen[id(tensor)] = seen
            self._alive.append(tensor)

    def _follow(self, name: str, args: Any, found: Any) -> None:
        tensors = [one for one in args if isinstance(one, Tensor)]
        if name in PRODUCTS:
            if name == "einsum" and len(args) == 3:
                tensors, d_head = list(args[1:]), _contracted(*args)
            else:
                d_head = tensors[0].shape[-1] if len(tensors) == 2 and tensors[0].dim() > 0 else None
            if len(tensors) == 2 and d_head is not None and not any(map(_is_weight, tensors)):
                factor = self._of(tensors[0]).factor * self._of(tensors[1]).factor
                self._note(found, _Seen(factor, d_head, _width(tensors[0])))
        elif name in (*TIMES, *OVER) and len(args) == 2:
            numbers = [_number(one) for one in args]
            tensor = next((one for one, number in zip(args, numbers, strict=True) if number is None), None)
            number = next((number for number in numbers if number is not None), None)
            if tensor is not None and number is not None and number > 0:
                seen = self._of(tensor)
                factor = seen.factor * number if name in TIMES else seen.factor / number
                self._note(found, _Seen(factor, seen.d_head, seen.queries))
        elif name in KEPT and tensors:
            kept = [self._of(one) for one in tensors if id(one) in self._seen]
            if kept:
                self._note(found, max(kept, key=lambda seen: seen.d_head is not None))
        elif name in ("chunk", "split", "unbind", "tensor_split") and tensors and id(tensors[0]) in self._seen:
            for one in found:
                self._note(one, self._of(tensors[0]))


def _is_weight(tensor: Tensor) -> bool:
    """Whether it is a parameter, or a view of one: read-outs and routers multiply by these, attention by none."""
    return isinstance(tensor, nn.Parameter) or isinstance(tensor._base, nn.Parameter)


def _number(value: Any) -> float | None:
    if isinstance(value, Tensor):
        return float(value) if value.dim() == 0 and not value.requires_grad else None
    return float(value) if isinstance(value, int | float) else None


def _contracted(equation: Any, left: Tensor, right: Tensor) -> int | None:
    """The size of the one index that an einsum of two tensors sums over."""
    if not isinstance(equation, str) or "->" not in equation:
        return None
    inputs, output = equation.replace(" ", "").split("->")
    first, _, second = inputs.partition(",")
    summed = [index for index in first if index in second and index not in output and index.isalpha()]
    if len(summed) != 1:
        return None
    place = first.index(summed[0]) - len(first)
    return left.shape[place] if "." not in first[first.index(summed[0]) :] else None


def _width(query: Tensor) -> int | None:
    """Channels of all heads' queries, of a tensor (batch, heads, positions, channels)."""
    return query.shape[1] * query.shape[-1] if query.dim() == 4 else None


def watch(run: Callable[[], Any]) -> list[Scores]:
    """The attention scores that are computed while something runs."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # torch's encoder layer would leave Python
    try:
        with _Watch() as seen:
            run()
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
    return seen.scores


def widths(module: nn.Module) -> set[int]:
    """Sizes that may be a model's width: of embeddings and of norms."""
    found = {one.embedding_dim for one in module.modules() if isinstance(one, nn.Embedding)}
    return found | {one.normalized_shape[-1] for one in module.modules() if isinstance(one, nn.LayerNorm)}


def in_words(scores: Scores, wide: set[int]) -> tuple[bool, str]:
    """Whether the scores are divided by √d_head, and by what."""

    def is_root_of(size: int) -> bool:
        return math.isclose(scores.factor**2 * size, 1.0, rel_tol=1e-3)

    if is_root_of(scores.d_head):
        return True, f"divided by √d_head = √{scores.d_head}"
    if math.isclose(scores.factor, 1.0, rel_tol=1e-6):
        return False, f"not divided by anything, with d_head = {scores.d_head}"
    for size in sorted(wide | ({scores.queries} if scores.queries else set())):
        if is_root_of(size):
            return False, f"divided by √d_model = √{size}, where d_head = {scores.d_head}"
    return False, f"multiplied by {scores.factor:.4g}, where 1/√d_head = {scores.d_head**-0.5:.4g}"
