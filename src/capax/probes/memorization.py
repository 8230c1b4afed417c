"""How much of a text a kept model remembers: windows said verbatim, and bits that a reference does not know.

Bits are those of Morris et al. 2025 (arXiv 2505.24832, section 2): of the text x, of a trained model θ and of a
reference r that never saw x, mem(x, θ | r) = H(x | r) − H(x | r, θ), where H(x | r) = −log2 p_r(x) and
H(x | r, θ) = −log2 max(p_r(x), p_θ(x)), so that each window adds max(0, −log2 p_r − (−log2 p_θ)).

How this differs: for text their reference is "a large oracle model trained on the full data distribution" (caption of
figure 2). Ours is whatever model learned the half of the documents that was held out, as a rule one of the same shape.
It knows the language from as much text as the model does, and is the poorer the less text there is: bits that more text
of this kind would have taught are counted as memorized, too. Clipping at zero makes the sum positive for two models
that are only noisy; `signed_bits` is the sum without it.

Beside a reference, or in its place, stands a compressor that has read the held-out half (LZMA). It is the floor of what
a reference should do: one that knows the language needs fewer bits. So what a model's code is shorter by than the
compressor's is more than what it memorized of these windows; where it is not shorter, nothing is shown. A reference
that has learned few windows by heart codes others badly, often worse than a uniform guess does, and then shows far too
much; a note says so.
"""

from __future__ import annotations

import lzma
import math
import re
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import scipy
import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field

from capax.errors import SpecError, StoreError
from capax.memory import Memory, load
from capax.models.ensemble import TokenEnsemble
from capax.results import LEVEL, Result
from capax.specs import Run, Text
from capax.store import DEFAULT
from capax.tasks.text import before, control
from capax.tasks.text_windows import among, halves

NUMBERS_AT_ONCE = 2**22
"""Scores that are in memory together, in float64: 32 MB."""

LONGEST_TEXT = 2**26
"""Bytes of the half that is held out that a compressor reads at most: it takes a second a megabyte."""


class Verbatim(Result):
    """How many windows are recalled: every token after the prefix is the most probable one, given those before it."""

    recalled: int
    windows: int
    rate: float
    low: Annotated[float, Field(description="Of the 95 % interval by Clopper and Pearson, windows as independent.")]
    high: float
    bits_per_token: Annotated[float, Field(description="Mean code length of a window's tokens by the model.")]


class Against(Result):
    """What a model knows of the windows that it learned beyond a reference that did not see them."""

    key: Annotated[str, Field(description="Of the reference's run.")]
    windows: Annotated[int, Field(description="That the model learned and the reference did not.")]
    seen_by_both: Annotated[int, Field(description="Windows that the reference learned, too; they are left out.")]
    reference_bits: Annotated[float, Field(description="Code length of these windows by the reference.")]
    model_bits: Annotated[float, Field(description="The same by the model.")]
    unintended_bits: Annotated[
        float, Field(description="Sum over windows of what the model's code is shorter by, where it is (Morris 2025).")
    ]
    signed_bits: Annotated[float, Field(description="The same sum, negative where the model's code is longer.")]
    bits_per_parameter: Annotated[float, Field(description="unintended_bits over the model's trained parameters.")]


class Floor(Result):
    """The same against a compressor in place of a reference: more than what is memorized, where it is positive."""

    compressor: str
    held_out_bytes: Annotated[int, Field(description="Text of the other half, all of it, read before.")]
    text_bytes: Annotated[int, Field(description="Text of the windows that the model learned.")]
    compressed_bits: Annotated[float, Field(description="Of this text, after that one.")]
    model_bits: Annotated[float, Field(description="Code length of the same windows by the model.")]
    shorter_by_bits: Annotated[
        float, Field(description="What the model's code is shorter by; negative where it is longer.")
    ]
    bits_per_parameter: Annotated[float, Field(description="shorter_by_bits over the model's trained parameters.")]


class Memorization(Result):
    """What a kept model remembers of the text that it learned, beside the text that was held out."""

    key: str
    spec: Run
    trainable_parameters: int
    prefix: Annotated[int, Field(description="Tokens of a window that recall is given.")]
    suffix: Annotated[int, Field(description="Tokens that it asks for.")]
    level: Annotated[float, Field(description="Of all intervals.")]
    learned: Annotated[Verbatim, Field(description="Of the windows that the model learned.")]
    held_out: Annotated[
        Verbatim | None, Field(description="Of windows of the other half; None where all are learned ones, too.")
    ]
    p_value: Annotated[
        float | None, Field(description="Of rates that do not differ: Fisher's exact test, on both sides.")
    ]
    significant: Annotated[bool | None, Field(description="Whether it is below one less the level.")]
    membership: Annotated[
        float | None,
        Field(
            description="Share (and F1) of windows told rightly by code length, of as many learned and held-out ones: "
            "those below the median are taken for learned; a guess tells half."
        ),
    ]
    information_bits: Annotated[
        float,
        Field(description="Bits known of the learned windows against a uniform guess of their tokens, language too."),
    ]
    against: Annotated[Against | None, Field(description="Against a reference, where one was given.")]
    floor: Annotated[Floor, Field(description="Against a compressor.")]
    notes: tuple[str, ...]


def memorization(
    key: str,
    reference: str | None = None,
    *,
    store: Path | str = DEFAULT,
    trust: bool = False,
    library: Path | str | None = None,
) -> Memorization:
    """What the kept model of a run on text remembers of its windows, verbatim and in bits.

    Verbatim: a window counts when each token after the prefix is the most probable one given those before it, which
    is what greedy decoding says (Carlini et al. 2023, arXiv 2202.07646, whose windows are of 100 tokens). Held-out
    windows say what the language alone lets a model guess.

    Args:
        key: of a run on text with kept weights, or its beginning.
        reference: the same of a run that learned the other half of the same documents, put into the same tokens; it
            may be any model, best one that learned all windows of its half. Without it a compressor alone says how many
            bits there may be (see the module).
        trust: whether a user's module may be imported, which runs its code.
        library: where the documents lie now, if they have moved.

    Raises:
        SpecError: for a run of another task, or a reference of the same half, other documents, tokens or windows.
        StoreError: when the store has no such run, or one kept no weights.
        LibraryError: when the documents have changed or are gone.
    """
    memory = _kept(key, store, trust, library, "key")
    spec: Any = memory.run.spec.task
    other = None if reference is None else _reference(reference, memory, store, trust, library)
    parameters, held_out = memory.run.parameters.trainable, control(spec)
    mine, right = coded(memory.model, memory.library, spec)
    theirs, guessed = coded(memory.model, before(spec, held_out), spec)
    p_value = _p_value(right, guessed) if len(held_out) else None
    against = None if other is None else _against(memory, other, mine)
    floor = _floor(memory, float(mine.sum()))
    return Memorization(
        key=memory.run.key,
        spec=memory.run.spec,
        trainable_parameters=parameters,
        prefix=spec.prefix,
        suffix=spec.suffix,
        level=LEVEL,
        learned=_verbatim(right, mine, spec.seq_len),
        held_out=_verbatim(guessed, theirs, spec.seq_len) if len(held_out) else None,
        p_value=p_value,
        significant=None if p_value is None else p_value < 1 - LEVEL,
        membership=membership(mine, theirs),
        information_bits=float((spec.information_per_item() - mine).clip(0).sum()),
        against=against,
        floor=floor,
        notes=tuple(_notes(memory, int(right.sum()), len(held_out)) + _doubts(memory, other, against, floor)),
    )


def coded(
    model: TokenEnsemble[Any], rows: Int[np.ndarray, "items tokens"], spec: Any
) -> tuple[Float[np.ndarray, " items"], Bool[np.ndarray, " items"]]:
    """Each window's code length by a model, in bits, and whether its tokens after the prefix are the most probable.

    Args:
        rows: windows after the token that is no other, which is not coded.
        spec: the task (`capax.Text`).
    """
    bits, right = [np.zeros(0)], [np.zeros(0, dtype=bool)]
    sizes, n = spec.sizes(), spec.suffix
    if not len(rows):  # of which torch makes one empty part
        return bits[0], right[0]
    with torch.no_grad():
        for some in torch.from_numpy(rows).split(max(1, NUMBERS_AT_ONCE // (sizes["context"] * sizes["vocab_size"]))):
            logits, answers = model.logits(some[None, :, :-1], "all")[0].double(), some[:, 1:]
            each = -logits.log_softmax(-1).gather(-1, answers[..., None])[..., 0]
            bits.append((each.sum(1) / math.log(2)).numpy())
            right.append((logits[:, -n:].argmax(-1) == answers[:, -n:]).all(1).numpy())
    return np.concatenate(bits), np.concatenate(right)


def membership(learned: Float[np.ndarray, " items"], held_out: Float[np.ndarray, " others"]) -> float | None:
    """Share of windows told rightly by code length, of as many of both; None where there are none.

    Those below the median of all are taken for learned; where the code lengths of both are alike, half are told.
    """
    count = min(len(learned), len(held_out))
    if not count:
        return None
    lengths = np.concatenate([learned[:count], held_out[:count]])
    ranks = scipy.stats.rankdata(lengths)
    return float(((ranks < count + 0.5) == (np.arange(2 * count) < count)).mean())


def _kept(key: str, store: Path | str, trust: bool, library: Path | str | None, field: str) -> Memory:
    """A run on text, with the model that it kept."""
    try:
        memory = load(key, store, trust=trust, library=library)
    except StoreError as error:
        raise StoreError(re.sub("^key: ", f"{field}: ", str(error))) from None
    task = memory.run.spec.task
    if not isinstance(memory, Memory) or not isinstance(task, Text):
        raise SpecError(f"{field}: should be of a run on text, run {memory.run.key[:12]} learned {task.task}")
    return memory


def _reference(key: str, memory: Memory, store: Path | str, trust: bool, library: Path | str | None) -> Memory:
    """A run on the other half of the same documents."""
    other = _kept(key, store, trust, library, "reference")
    mine: Any = memory.run.spec.task
    theirs: Any = other.run.spec.task
    for name in ("tokenization", "bpe_size", "seq_len"):
        here, there = getattr(mine, name), getattr(theirs, name)
        if here != there and not (name == "bpe_size" and mine.tokenization == "bytes"):
            raise SpecError(f"reference: should have {name} {here} as the run has, got {there}")
    if theirs.library_sha256 != mine.library_sha256:
        raise SpecError(
            f"reference: should be of the same documents as the run ({mine.library}), got those of {theirs.library}"
        )
    if theirs.half == mine.half:
        same = other.run.key == memory.run.key
        got = "the run itself" if same else f"run {other.run.key[:12]}, of the {mine.half}, too"
        raise SpecError(f"reference: should have learned the other half of the documents, got {got}")
    return other


def _p_value(right: Bool[np.ndarray, " items"], guessed: Bool[np.ndarray, " others"]) -> float:
    """Of two rates that are equal, by Fisher's exact test."""
    table = np.array([[row.sum(), (~row).sum()] for row in (right, guessed)])
    return float(scipy.stats.fisher_exact(table).pvalue)


def _verbatim(right: Bool[np.ndarray, " items"], bits: Float[np.ndarray, " items"], seq_len: int) -> Verbatim:
    recalled, count = int(right.sum()), len(right)
    low, high = scipy.stats.binomtest(recalled, count).proportion_ci(LEVEL)
    per_token = float(bits.mean()) / seq_len
    return Verbatim(
        recalled=recalled, windows=count, rate=recalled / count, low=low, high=high, bits_per_token=per_token
    )


def _against(memory: Memory, other: Memory, mine: Float[np.ndarray, " items"]) -> Against:
    fresh = ~among(memory.library, other.library)
    theirs = coded(other.model, memory.library[fresh], other.run.spec.task)[0]
    shorter = theirs - mine[fresh]
    unintended = float(shorter.clip(0).sum())
    return Against(
        key=other.run.key,
        windows=int(fresh.sum()),
        seen_by_both=int((~fresh).sum()),
        reference_bits=float(theirs.sum()),
        model_bits=float(mine[fresh].sum()),
        unintended_bits=unintended,
        signed_bits=float(shorter.sum()),
        bits_per_parameter=unintended / memory.run.parameters.trainable,
    )


def _floor(memory: Memory, model_bits: float) -> Floor:
    """LZMA of the held-out text and the learned windows together, less that of the former alone."""
    spec: Any = memory.run.spec.task
    corpus, found = halves(spec)
    (other,) = (windows for half, windows in found.items() if half != spec.half)
    known = corpus.tokenizer.encoded(other.tokens.ravel())[:LONGEST_TEXT]
    text = corpus.tokenizer.encoded(memory.library[:, 1:].ravel())
    bits = 8.0 * (_compressed(known + text) - _compressed(known))
    return Floor(
        compressor="LZMA",
        held_out_bytes=len(known),
        text_bytes=len(text),
        compressed_bits=bits,
        model_bits=model_bits,
        shorter_by_bits=bits - model_bits,
        bits_per_parameter=(bits - model_bits) / memory.run.parameters.trainable,
    )


def _compressed(text: bytes) -> int:
    """Bytes of a text by LZMA, which looks back over all of it."""
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": max(len(text), 4096)}]
    return len(lzma.compress(text, lzma.FORMAT_RAW, filters=filters))


def _notes(memory: Memory, recalled: int, held_out: int) -> list[str]:
    notes = []
    if recalled != memory.run.memorized:
        notes.append(f"{memory.run.memorized} windows were recalled when it was measured: rounding decides some")
    if not held_out:
        notes.append("all windows of the other half are learned ones, too: there is no control")
    return notes


def _doubts(memory: Memory, other: Memory | None, against: Against | None, floor: Floor) -> list[str]:
    """Why bits beyond the reference may be more than what is memorized."""
    if other is None or against is None or not against.windows:
        return []
    spec: Any = memory.run.spec.task
    notes = []
    if other.run.spec.model != memory.run.spec.model:
        size = other.run.parameters.trainable
        notes.append(
            f"the reference is another model, of {size} trained parameters: the more it can know of the language, the "
            "fewer bits are counted as memorized"
        )
    tokens = against.windows * spec.seq_len
    theirs, guess = against.reference_bits / tokens, math.log2(spec.vocab_size)
    compressed = floor.compressed_bits / (len(memory.library) * spec.seq_len)
    better = [
        f"{what} ({bits:.2f})"
        for what, bits in (("a uniform guess", guess), ("the compressor", compressed))
        if bits < theirs
    ]
    if better:
        notes.append(
            f"the reference ({theirs:.2f} bits a token) codes these windows worse than {' and '.join(better)}: it "
            "shows too much; train one on more windows, or for fewer epochs"
        )
    return notes
