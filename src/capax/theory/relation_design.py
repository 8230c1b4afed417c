"""How to divide a total key dimension among heads: a rule of thumb, and what it rests on."""

from __future__ import annotations

from math import ceil, log2
from typing import Annotated, Literal

from pydantic import Field

from capax.errors import SpecError
from capax.results import Result
from capax.specs.channel import trained_heads
from capax.specs.spec import whole


class ChannelDesign(Result):
    """Heads and their size for a graph, each as a range."""

    weights: Literal["whitened", "trained"]
    n_heads: tuple[int, int]
    d_head: tuple[int, int]
    total_key_dim: tuple[int, int]
    standing: Annotated[
        Literal["measured", "extrapolated"],
        Field(
            description="measured: read off our own runs; the form m' log m' / d_model is the paper's. extrapolated: "
            "of other sizes than those of the runs."
        ),
    ] = "measured"


def channel_design(n_items: int, n_edges: int, d_model: int) -> tuple[ChannelDesign, ChannelDesign]:
    """Sizes that reached F1 ≥ .99 on Gaussian items, for whitened weights and for trained ones.

    The paper (Adler 2025) gives the direction only: many small heads when items outnumber channels, one when not.
    Whitened (d_model ≥ 64): h = m'/(d/3) to m'/(d/4), d_head 1.1 to 1.8 log2 m. Trained
    (permutations, m ≤ 512, d_model ≥ 16, a learning rate of .8): D_K = .3 to .7 · m' log2 m' / d_model, by
    m' log2 m' / d_model² heads to twice as many. Other sizes are extrapolated, and say so; m' heads of one channel are
    always enough (`capax.construct`), so that more is never needed.

    Args:
        n_items: items m of the graph.
        n_edges: its edges m', at most m (m − 1).
        d_model: channels of an item.

    Raises:
        SpecError: for fewer than 2 items or edges, more edges than pairs, or no channel.
    """
    for name, size, least in (("n_items", n_items, 2), ("n_edges", n_edges, 2), ("d_model", d_model, 1)):
        whole(name, size, least)
    if n_edges > (most := n_items * (n_items - 1)):
        raise SpecError(f"n_edges: at most {most} (n_items {n_items}), got {n_edges}")
    heads = ceil(n_edges / max(1, d_model // 3)), ceil(n_edges / max(1, d_model // 4))
    sizes = ceil(1.1 * log2(n_items)), ceil(1.8 * log2(n_items))
    per_channel, trained = n_edges * log2(n_edges) / d_model, trained_heads(n_edges, d_model)
    ranges = {"whitened": d_model >= 64, "trained": d_model >= 16 and n_items <= 512}
    standing: dict[str, Literal["measured", "extrapolated"]] = {
        weights: "measured" if inside else "extrapolated" for weights, inside in ranges.items()
    }
    total = max(trained[0], ceil(0.3 * per_channel)), max(trained[1], ceil(0.7 * per_channel))
    return (
        ChannelDesign(
            weights="whitened",
            n_heads=heads,
            d_head=sizes,
            total_key_dim=(heads[0] * sizes[0], heads[1] * sizes[1]),
            standing=standing["whitened"],
        ),
        ChannelDesign(
            weights="trained",
            n_heads=trained,
            d_head=(max(1, total[0] // trained[1]), ceil(total[1] / trained[0])),
            total_key_dim=total,
            standing=standing["trained"],
        ),
    )
