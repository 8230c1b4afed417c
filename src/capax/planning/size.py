"""What a config of Hugging Face means: parameters, bytes, bits that it holds, and whether facts fit, by stated laws."""

from __future__ import annotations

from math import ceil, inf
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from capax.errors import LawError, SpecError, shown
from capax.laws.domain import Domain
from capax.laws.exposure import SHARES, ExposureLaw
from capax.laws.files import load_law
from capax.laws.law import Law
from capax.models.hf_config import Described, causal_model, read_config
from capax.overview import Displayed, Overview
from capax.planning.answers import SUREST, Columns, predicted
from capax.planning.cost import PEAKS, hours_on, there
from capax.planning.counting import Counts, Shape, count, positions, shape
from capax.planning.densities import WEIGHT_BITS, Density, density, published_densities
from capax.planning.facts import ANY
from capax.planning.facts_file import UNPACKED, checked_recall, given_facts, in_file
from capax.planning.facts_plan import FactsInFile
from capax.planning.facts_study import fill, in_words
from capax.planning.fill import Fill
from capax.planning.known import CURVE, HELD, share_in_words
from capax.results import Result
from capax.specs import Facts
from capax.specs.spec import positive, whole
from capax.text import amount

BITS_OF = {"float32": 32, "bfloat16": 16, "int8": 8, "int4": 4}
"""Of a parameter; int8 and int4 without their scales."""
AS_TRAINED = {"loss": "all", "embeddings": "trained", "ffn": "mlp"}
"""Kinds of a language model."""
TEXT_A_TOKEN = 4
"""Bytes of text, where nobody has cut it into tokens."""
BITS_A_TOKEN = 1
SCHULMAN = "Schulman et al. 2025, 'LoRA Without Regret': about 1 bit a token of data (read)"
MANY_ROWS = 0.05
"""Share of all parameters from which it is said that tables hold nothing of what never occurs."""


ASKED_OF_CURVE = ("effective_parameters", "n_layers")
LATE = 0.9
"""Share that is known below which a training is said to take longer than that of the nearest network."""
CURVE_ENDS = (
    "the law of exposures was fitted from {:g} to {:g} exposures, to networks of {:g} to {:g} effective parameters and "
    "{:g} to {:g} layers, trained in one step an exposure; beyond those exposures it is extrapolated"
)


class Exposed(Result):
    """How often each item has to be seen for a share of what a network can hold."""

    share: float
    exposures: float


class Asked(Result):
    """What is to be held, and what that takes."""

    bits: Annotated[float, Field(description="To be held: of facts, by the entropy of each relation's answers.")]
    facts: Annotated[FactsInFile | None, Field(description="The file, where one was given.")]
    recall: Annotated[float | None, Field(description="Share of the asked facts that is to be recalled.")]
    fill: Annotated[float, Field(description="Bits by bits of capacity at which so much is recalled; 1 of plain bits.")]
    probability: Annotated[
        float, Field(description="With which the network holds them, by the law; at least 0.001, at most 0.999.")
    ]
    wanted: Annotated[float, Field(description="Probability from which it is said to fit.")]
    fits: bool
    exposures: Annotated[
        int | None, Field(description="Times that each is seen, by the law of exposures; None beyond what is expected.")
    ]
    tokens: Annotated[float, Field(description="Of one exposure of all of them.")]
    tokens_from: Annotated[
        Literal["given", "text", "bits"],
        Field(description="given; text: a quarter of its bytes; bits: one token for each."),
    ]
    flops: Annotated[
        float | None, Field(description="Operations of all exposures; None where they or the parameters are not known.")
    ]
    accelerator_hours: Annotated[
        dict[str, float] | None, Field(description="On one accelerator, by its name, in bfloat16.")
    ]
    times_packed: Annotated[
        dict[str, float] | None,
        Field(description="Bytes of the weights by those of the facts packed by zstd, by precision."),
    ]


class ModelSize(Displayed, Result):
    """What a config of Hugging Face means, without training."""

    config: Annotated[str, Field(description="The file or folder, as it was given.")]
    kind: Annotated[str, Field(description="Its model_type.")]
    architecture: Annotated[str, Field(description="The class of transformers that was counted.")]
    shape: Shape
    parameters: Counts
    bytes: Annotated[dict[str, int], Field(description="Of all parameters, by precision.")]
    densities: Annotated[
        tuple[Density, ...], Field(description="What it holds: by the law of capacity, and by what was published.")
    ]
    exposures: Annotated[
        tuple[Exposed, ...], Field(description="By the law of exposures, of networks that are full in the end.")
    ]
    exposures_of: Annotated[
        dict[str, float] | None,
        Field(
            description="Sizes of the network whose exposures these are, and those of `asked`: where the model is "
            "beyond the law's data the nearest there, and this one may need more; None where it is the model's own."
        ),
    ] = None
    asked: Asked | None
    law: str
    source: str
    domain: Domain
    outside: Annotated[tuple[str, ...], Field(description="Why it lies outside the domain of the law of capacity.")]
    notes: tuple[str, ...]
    schema_version: Literal[1] = 1

    def overview(self) -> Overview:
        """What a prompt or a notebook shows of it: how large it is, and what it holds."""
        asked, held = self.asked, self.densities
        fits = "" if asked is None else f"{'fits' if asked.fits else 'DOES NOT FIT'} ({asked.probability:.1%})"
        return Overview(
            title=f"{self.config}: {self.kind} ({self.architecture})",
            rows={
                "parameters": f"{self.parameters.total:,}",
                "bytes": ", ".join(f"{amount(size, 'B')} as {name}" for name, size in self.bytes.items()),
                "outside": "; ".join(self.outside),
                "asked": "" if asked is None else f"{amount(asked.bits, 'bit')}: {fits}",
            },
            table={
                "density": [one.name for one in held],
                "bits/par.": [f"{one.bits_per_parameter:.3g}" for one in held],
                "bits": [amount(one.bits) for one in held],
                "standing": [one.standing for one in held],
            },
            notes=self.notes,
        )


def model_size(
    config: Path | str,
    *,
    facts: Facts | Path | str | None = None,
    bits: float | None = None,
    recall: float | None = None,
    probability: float | None = None,
    tokens: int | None = None,
) -> ModelSize:
    """Parameters, bytes and bits of a config of Hugging Face, and whether facts, or so many bits, fit into it.

    The model is built on torch's meta device, so that it takes no memory; nothing is trained or downloaded. What it
    holds is said by the law of capacity that ships, which was fitted to networks of 541 to 411,742 effective
    parameters, and beside it by densities that others measured.

    Args:
        config: a JSON file, or a folder with config.json.
        facts: a file of facts, or the task with what is done with several answers.
        bits: to be held, in place of facts.
        recall: share of the facts that is to be recalled; 0.99 when not given.
        probability: from which the facts, or bits, are said to fit; 0.9 when not given.
        tokens: of one exposure of all facts, or bits; a quarter of the bytes of the facts' text when not given, or one
            for each bit.

    Raises:
        SpecError: for a config that cannot be read, or is of no architecture that transformers has.
        LawError: for values that are not allowed.
        CapaxError: for a file of facts that cannot be read, or asks no bits.
    """
    if facts is not None and bits is not None:
        raise LawError("bits: only without facts, which have bits of their own")
    if facts is None and recall is not None:
        raise LawError("recall: only with facts, of which it is a share")
    recall = 0.99 if recall is None else recall
    if facts is None and bits is None and tokens is not None:
        raise LawError("tokens: only with facts or bits, of which they are")
    if facts is None and bits is None and probability is not None:
        raise LawError("probability: only with facts or bits, that are to fit")
    probability = 0.9 if probability is None else probability
    if bits is not None:
        positive("bits", bits, error=LawError)
    positive("probability", probability, SUREST, LawError)
    if probability < 1 - SUREST:  # the law's own is not told apart from others there
        raise LawError(f"probability: from {1 - SUREST:.3g} to {SUREST}, got {shown(probability)}")
    if tokens is not None:
        whole("tokens", tokens, error=LawError)
    if not isinstance(config, str | Path):
        raise SpecError(f"config: a JSON file, or a folder with config.json, got {shown(config)}")
    described = read_config(Path(config))
    model = causal_model(described)
    counts, sizes = count(model, described.config, described.kind), shape(described.config)
    task = None if facts is None else given_facts(facts)
    if task is not None:
        checked_recall(task, recall)
    law, curve = load_law("reference"), load_law(CURVE)
    assert isinstance(curve, ExposureLaw)
    table, outside = _row(law, counts, sizes, positions(described.config))
    held = Fill() if task is None else fill(recall)
    densities = [density(law, table, counts), *published_densities(counts.total)]
    asked, known = None, nearest(curve, counts, sizes)
    if task is not None or bits is not None:
        file = None if task is None else in_file(task)
        asked = _asked(counts, sizes, law, curve, table, held, file, bits, recall, wanted=probability, tokens=tokens)
        densities = [one.model_copy(update={"used": asked.bits / one.bits}) for one in densities]
    return ModelSize(
        config=str(config),
        kind=described.kind,
        architecture=type(model).__name__,
        shape=sizes,
        parameters=counts,
        bytes=_bytes(counts.total),
        densities=tuple(densities),
        exposures=tuple(Exposed(share=share, exposures=_until(curve, share, known)) for share in SHARES),
        exposures_of=known if known != _of_curve(curve, counts, sizes) else None,
        asked=asked,
        law=law.name,
        source=law.source_,
        domain=law.domain_,
        outside=outside,
        notes=(
            *described.notes,
            *_of_the_law(law, counts, described, densities[0]),
            *_filled_in(law, table, sizes),
            CURVE_ENDS.format(*(end for name in ("exposures", *ASKED_OF_CURVE) for end in curve.domain_.ranges[name])),
            *_at_own_size(curve, counts, sizes),
            *(() if asked is None else _of_the_asked(asked, counts, held, curve)),
            *([ANY] if task is not None and task.ambiguous == "any" else []),
        ),
    )


def _row(law: Law, counts: Counts, sizes: Shape, longest: int | None) -> tuple[Columns, tuple[str, ...]]:
    """The model as a row of the law's columns, and why it lies outside of its domain.

    What the config does not say, such as the length of what is learned, is as in the law's data, the largest there, or
    as many tokens as the model reads; it says nothing of the domain. All its tables are trained, by a loss on all
    positions.
    """
    known: dict[str, Any] = {name: value for name, value in sizes if value is not None and name in law.columns}
    known["effective_parameters"] = counts.effective
    domain = law.domain_
    usual = AS_TRAINED | {name: high for name, (_, high) in domain.ranges.items()}
    usual = {name: usual[name] for name in law.columns}
    if longest is not None and "seq_len" in usual:
        usual["seq_len"] = min(usual["seq_len"], longest)
    row = {name: np.array([value]) for name, value in (usual | known).items()}
    kinds = {name: kind for name, kind in AS_TRAINED.items() if name in law.columns}
    return row, tuple(domain.outside_in_words(kinds | known))


def _filled_in(law: Law, table: Columns, sizes: Shape) -> list[str]:
    """What the law was asked for that the config does not say."""
    known = {name for name, value in sizes if value is not None} | {"effective_parameters"}
    said = {name: table[name][0].item() for name in law.columns if name not in known}
    words = [f"{name} {value if isinstance(value, str) else f'{value:g}'}" for name, value in said.items()]
    return [f"the law is asked for {', '.join(words)}, which the config does not say"] if words else []


def _asked(
    counts: Counts,
    sizes: Shape,
    law: Law,
    curve: ExposureLaw,
    table: Columns,
    held: Fill,
    file: FactsInFile | None,
    bits: float | None,
    recall: float,
    *,
    wanted: float,
    tokens: int | None,
) -> Asked:
    """Whether so many bits fit, and what their training costs."""
    wanted_bits = file.entropy_bits if file is not None else float(bits or 0.0)
    probability = _probability(law, table, held, wanted_bits)
    share = wanted_bits / (float(predicted(law, table)[0]) * held.share)
    seen = _exposures(curve, share, nearest(curve, counts, sizes))
    each = float(tokens or (wanted_bits / BITS_A_TOKEN if file is None else file.text_bytes / TEXT_A_TOKEN))
    flops = None if seen is None or counts.multiplied is None else 6.0 * seen * each * counts.multiplied
    packed = None if file is None else file.compressed_bytes
    width = dict(sizes).get("d_model") or inf  # of one that is not known the peak's share is taken
    return Asked(
        bits=wanted_bits,
        facts=file,
        recall=None if file is None else recall,
        fill=held.share,
        probability=probability,
        wanted=wanted,
        fits=probability >= wanted,
        exposures=seen,
        tokens=each,
        tokens_from="given" if tokens else "bits" if file is None else "text",
        flops=flops,
        accelerator_hours=None if flops is None else {name: hours_on(name, flops, width) for name in PEAKS},
        times_packed=None if not packed else {name: size / packed for name, size in _bytes(counts.total).items()},
    )


def _probability(law: Law, table: Columns, held: Fill, bits: float) -> float:
    """With which a new measurement of the model would hold so many bits, by the law and the spread of fills."""
    levels = [1 - SUREST, *np.linspace(0.005, 0.995, 199).tolist(), SUREST]
    quantiles = np.log([float(one[0]) * held.share for one in held.widened(law, table, levels)])
    return 1 - float(np.interp(np.log(bits), np.maximum.accumulate(quantiles), levels))


def nearest(curve: ExposureLaw, counts: Counts, sizes: Shape) -> dict[str, float]:
    """The sizes that a curve depends on, those of the largest or deepest network it knows where the model is beyond.

    How a delay goes on to sizes that were trained in many steps an exposure nobody knows.
    """
    ends = {name: curve.domain_.ranges[name][1] for name in ASKED_OF_CURVE}
    return {name: min(value, ends[name]) for name, value in _of_curve(curve, counts, sizes).items()}


def fewest_exposures() -> float:
    """Where the law of exposures begins: fewer than these may do."""
    return load_law(CURVE).domain_.ranges["exposures"][0]


def _of_curve(curve: ExposureLaw, counts: Counts, sizes: Shape) -> dict[str, float]:
    """The sizes that a curve depends on; of layers that are not known as many as the deepest network it knows has."""
    layers = dict(sizes).get("n_layers") or curve.domain_.ranges["n_layers"][1]
    return {"effective_parameters": float(counts.effective), "n_layers": float(layers)}


def _at_own_size(curve: ExposureLaw, counts: Counts, sizes: Shape) -> list[str]:
    """What a model beyond the curve's networks knows by its own sizes when the nearest of those knows most."""
    own, known = _of_curve(curve, counts, sizes), nearest(curve, counts, sizes)
    if own == known:
        return []
    exposures = ceil(_until(curve, SHARES[-1], known))
    rows = {name: [value] for name, value in own.items()} | {"exposures": [exposures]}
    shares = curve.share_draws(rows, HELD)[:, 0]
    longer = ", so that its training may take many times as long" if np.median(shares) < LATE else ""
    return [
        "exposures are those of the nearest network that the law of exposures knows, the least to expect: by its own "
        f"sizes {share_in_words(shares)} of what this model holds is known after {exposures:,}{longer}"
    ]


def _exposures(curve: ExposureLaw, share: float, sizes: dict[str, float]) -> int | None:
    """Times that each item is seen until a share of what the network can hold is known; not fewer than the law's."""
    if share >= 1:
        return None
    return ceil(max(_until(curve, share, sizes), curve.domain_.ranges["exposures"][0]))


def _until(curve: ExposureLaw, share: float, sizes: dict[str, float]) -> float:
    """The same, however few: what it can hold is what the law of capacity counts, known after `HELD`."""
    size = {name: [value] for name, value in sizes.items()}
    held = float(curve.known_share(size | {"exposures": [HELD]})[0])  # of what is known after endless exposures
    return curve.exposures_for(share * held, **sizes)


def _bytes(total: int) -> dict[str, int]:
    return {name: -(-total * size // 8) for name, size in BITS_OF.items()}


def _of_the_law(law: Law, counts: Counts, described: Described, by_law: Density) -> list[str]:
    """What is to be known of the law at this model."""
    low, high = law.domain_.ranges["effective_parameters"]
    notes = []
    if counts.effective < low:
        notes.append(f"the law was fitted to networks of {low:g} effective parameters and more; this is smaller")
    if counts.effective > high:
        notes.append(
            f"the law was fitted to networks of {low:g} to {high:g} effective parameters, and this has "
            f"{counts.effective / high:.2g} times as many as the largest: the interval is how the law goes on, not "
            "evidence at this size; published densities are of up to 5e8 parameters (Allen-Zhu and Li) and "
            "7e6 (Morris et al.)"
        )
    if by_law.cut:
        notes.append(f"the law's interval ends above {WEIGHT_BITS} bits a parameter, which no float32 weight has: cut")
    if not counts.plain:
        notes.append(
            f"the law was fitted to plain transformers, attention and an FFN in every block; of {described.kind} all "
            "parameters are counted as they are"
        )
    if counts.experts is not None:
        notes.append(
            "a mixture of experts is taken to hold as much a parameter as a plain transformer; Allen-Zhu and Li 2024 "
            "report 1.3 times less of all parameters with 32 experts (secondary)"
        )
    if counts.active is None:  # also where a config names no experts, and its model has some
        notes.append("which experts a token uses is not known from this config: no active parameters, no costs")
    if counts.embedding_share >= MANY_ROWS:
        notes.append(
            f"{counts.embedding_share:.0%} of the parameters are tables and the read-out: rows of tokens that never "
            "occur hold nothing, though they are counted here (Allen-Zhu and Li left them out)"
        )
    return notes


def _of_the_asked(asked: Asked, counts: Counts, held: Fill, curve: ExposureLaw) -> list[str]:
    """What was assumed of facts and their training."""
    notes, (first, last) = [], curve.domain_.ranges["exposures"]
    if asked.facts is not None and asked.recall is not None:
        notes.append(in_words(held, asked.recall))
        if asked.facts.compressed_bytes is None:
            notes.append(UNPACKED)
    if asked.exposures is None:
        notes.append("exposures: no number of them suffices by the law")
    else:
        beyond = ", where it begins: fewer may do" if asked.exposures <= first else ""
        beyond = f", extrapolated beyond {last:g}" if asked.exposures > last else beyond
        notes.append(
            f"exposures: {asked.exposures} by the law {CURVE}{beyond}; Allen-Zhu and Li needed 100 for 1 bit a "
            "parameter, 1000 for 2"
        )
    if asked.flops is not None:
        each = {
            "given": "as given",
            "text": f"of {TEXT_A_TOKEN} bytes of text each",
            "bits": f"of one bit each ({SCHULMAN})",
        }[asked.tokens_from]
        notes.append(
            f"costs: {asked.tokens:.4g} tokens {each}; 6 operations for each of them and of the {counts.multiplied:,} "
            "parameters that it is multiplied by, attention between positions left out; "
            f"{there()}"
        )
    return notes
