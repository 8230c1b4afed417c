"""Trained models whose weights were kept: loaded with the library that they learned, and queried."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from safetensors.torch import save as serialized
from torch import Tensor

from capax import outputs
from capax.errors import CapaxError, ReportError, SpecError, StoreError, StoreWriteError, shown
from capax.inputs import exists, regular, whole_path
from capax.models.ensemble import Ensemble, TokenEnsemble
from capax.results import Measurement, Recall
from capax.seeds import numpy_generator
from capax.specs.plugins import resolve
from capax.specs.spec import truth, whole
from capax.store import DEFAULT, Store
from capax.tasks import associations
from capax.tasks.association_files import Examples
from capax.tasks.context_relations import ContextLibrary
from capax.tasks.relations import RelationLibrary
from capax.tasks.tokenization import TokenizationError, from_json
from capax.training.prepare import initial
from capax.training.room import refuse_too_large

ASKED_AT_ONCE = 4096
"""Examples per forward pass: their contexts and scores are in memory together."""


class PrefixError(CapaxError):
    """A prefix that does not fit this memory's task."""


@dataclass(frozen=True)
class Memory:
    """The best restart of a run on sequences: its measurement, its model and the library that it learned."""

    run: Measurement
    model: TokenEnsemble[Any]
    library: Int[np.ndarray, "items seq_len"]

    @classmethod
    def of(cls, run: Measurement, model: TokenEnsemble[Any], generator: np.random.Generator) -> Memory:
        """With the library drawn again."""
        task = run.spec.task
        return cls(run, model, task.library_type().draw(task, run.library_size, generator))

    @property
    def before(self) -> int:
        """Tokens that come before each item and are none of it: one, or none."""
        return self.library.shape[1] - (self.run.spec.task.tokens_per_item or 0)

    def asked(self, words: Sequence[str]) -> Recall:
        """`recall` of a prefix that is written down.

        Raises:
            PrefixError: for what are no integers, and as `recall`.
        """
        text = " ".join(words)
        try:
            return self.recall([int(word) for word in text.replace(",", " ").split()])
        except ValueError:
            raise PrefixError(f"prefix: integers separated by spaces, got {text!r:.80}") from None

    def recall(self, prefix: Sequence[int]) -> Recall:
        """The token that it predicts after a prefix of seq_len − 1 tokens.

        Raises:
            PrefixError: for a prefix of another length, or of what are no tokens of the vocabulary.
        """
        if isinstance(prefix, str) or not isinstance(prefix, Sequence | np.ndarray):
            raise PrefixError(f"prefix: a list of whole numbers, got {shown(prefix)}")
        prefix = [whole("prefix", token, None, PrefixError) for token in prefix]
        vocab_size, n = self.run.spec.task.sizes().values()
        before = self.before
        if len(prefix) != n - before:
            raise PrefixError(f"prefix: {n - before} tokens are needed (seq_len {n - before + 1}), got {len(prefix)}")
        outside = [token for token in prefix if not 0 <= token < vocab_size - before]
        if outside:
            raise PrefixError(f"prefix: tokens are 0..{vocab_size - before - 1}, got {outside[0]}")
        prefix = [*self.library[0, :before].tolist(), *prefix]
        with torch.no_grad():
            logits = self.model.logits(torch.tensor(prefix).view(1, 1, -1), "last")
        probabilities = logits.flatten().softmax(0)
        token = int(probabilities.argmax())
        rows = np.flatnonzero((self.library[:, :-1] == prefix).all(1))
        known = self.library[rows, -1].tolist()  # several where contradictions were kept
        agrees = token in known
        return Recall(
            token=token,
            probability=float(probabilities[token]),
            library_token=token if agrees else known[0] if known else None,
            agrees=agrees if known else None,
        )


@dataclass(frozen=True)
class AssociativeMemory:
    """The best restart of a run on associations: its measurement, its model and the examples that it learned."""

    run: Measurement
    model: Any
    library: Examples

    @classmethod
    def of(cls, run: Measurement, model: Ensemble[Any], generator: np.random.Generator) -> AssociativeMemory:
        """With the examples drawn again."""
        task: Any = run.spec.task
        return cls(run, model, associations.draw(task, run.library_size, model.spec.d_model, generator))

    def answers(self) -> Float[np.ndarray, "items o"]:
        """Its output for each example: scores of the classes, or the numbers of a real label."""
        return self._asked(self.model.outputs)

    def attention(self) -> Float[np.ndarray, "h items n"]:
        """Each head's attention to the tokens of each example's context (`capax.checks.saturation` reads it).

        Raises:
            SpecError: of a user's module, whose heads are not known.
        """
        return self._asked(self.model.attention).transpose(1, 0, 2)

    def _asked(self, ask: Callable[..., Tensor]) -> np.ndarray:
        kind = _floating(self.model)
        queries, contexts = (torch.from_numpy(a).to(kind) for a in (self.library.queries, self.library.contexts))
        one, n = len(contexts) == 1, contexts.shape[1]
        with torch.no_grad():
            shared = self.model.shared(len(queries), n, contexts if one else None)
            parts = [
                ask(queries[rows][None], None if one else contexts[rows][None], shared)[0]
                for rows in torch.arange(len(queries)).split(ASKED_AT_ONCE)
            ]
        return torch.cat(parts).numpy()


@dataclass(frozen=True)
class RelationMemory:
    """The best restart of a run on relations: its measurement, its model, and the graph that it learned."""

    run: Measurement
    model: Any
    library: RelationLibrary | ContextLibrary

    @classmethod
    def of(cls, run: Measurement, model: Ensemble[Any], generator: np.random.Generator) -> RelationMemory:
        """With the graph drawn again."""
        task: Any = run.spec.task
        library = RelationLibrary.build(task, model.spec, (run.library_size,), [generator], dtype=_floating(model))
        return cls(run, model, library)

    @property
    def items(self) -> Float[np.ndarray, "m c"]:
        """The items' vectors."""
        return self.library.items[0].double().numpy()

    @property
    def signs(self) -> Float[np.ndarray, "m m"]:
        """1 for each ordered pair (source, target) that is an edge, −1 for any other."""
        return np.where(self.library.signs[0].numpy() > 0, 1.0, -1.0)

    def outputs(self) -> Float[np.ndarray, "m m"]:
        """Its output for each ordered pair, over the scale: an edge where it is above zero.

        Where attention is within contexts, the mean over those that the measurement counted in.
        """
        with torch.no_grad():
            return self.library.pair_outputs(self.model)


def _floating(model: Ensemble[Any]) -> torch.dtype:
    """Of the numbers that it was trained in."""
    return next(one.dtype for one in model.parameters.values() if one.is_floating_point())


def save(path: Path, weights: dict[str, Tensor], told: dict[str, str] | None = None) -> None:
    """Write one member's parameters; a file is there whole or not at all.

    Args:
        told: texts that are kept with them, such as a tokenizer (safetensors' metadata).

    Raises:
        StoreWriteError: when it cannot be written.
    """
    try:
        path.parent.mkdir(exist_ok=True)
        outputs.write(path, serialized({name: one.cpu().contiguous() for name, one in weights.items()}, told), "store")
    except (OSError, ReportError) as error:
        raise StoreWriteError(f"store: the weights were not saved in {path.parent}: {error}") from None


def load(
    key: str, store: Path | str = DEFAULT, *, trust: bool = False, library: Path | str | None = None
) -> Memory | AssociativeMemory | RelationMemory:
    """The memory kept by a run measured with `keep_weights`.

    Args:
        key: the run's key, or the beginning of it if no other run's key begins so.
        trust: whether a user's module may be imported, which runs the code that the store names.
        library: where the file lies now that the run learned, if it has moved; its content is compared.

    Raises:
        StoreError: when the store has no such run, the run kept no weights, they are not those of its model, or its
            tokens cannot be made again.
        SpecError: when it is of a user's module that is not trusted, or whose source has changed, and for a library
            that is missing, or of a run without one.
        CapaxError: when the library is another than the run learned.
    """
    run, (path, *_) = find(key, store, trust=trust)
    run = _with_library(run, library)
    _refuse_another_tokenizer(run, path)
    found: Memory | AssociativeMemory | RelationMemory = resolve(run.spec.task.memory_class).of(
        run, kept(run, path), numpy_generator(run.spec.seed, "library", 0)
    )
    return found


def _with_library(run: Measurement, library: Path | str | None) -> Measurement:
    """A run whose file lies where it is said to."""
    task: Any = run.spec.task
    if "library" not in task.files:
        if library is not None:
            raise SpecError(f"library: only of runs that learned a file, got {str(library)!r:.80}")
        return run
    if library is not None:
        task = task.model_copy(update={"library": whole_path(library, "library", SpecError)})
    elif not exists(Path(task.library), "library", SpecError):
        raise SpecError(
            f"library: no such file: {task.library}; library=FILE, or --library where a command has it, says where it "
            "is now"
        )
    return run.model_copy(update={"spec": run.spec.model_copy(update={"task": task})})


def _refuse_another_tokenizer(run: Measurement, path: Path) -> None:
    """Raise StoreError where the tokens that are trained anew from a run's file are not those that it learned."""
    try:
        with safe_open(regular(path, "store", StoreError), "pt") as file:
            told = file.metadata() or {}
        for name, now in run.spec.task.kept_with_weights().items():
            if told.get(name, now) != now and not _reads_as(told[name], now):
                raise StoreError(
                    f"store: the {name} in {path} is not the one that its file gives now, with another version of "
                    "tokenizers; what its tokens mean is not known"
                )
    except (OSError, SafetensorError) as error:
        raise StoreError(f"store: cannot read {path}: {error}") from None


def _reads_as(told: str, now: str) -> bool:
    """Whether the JSON of a tokenizer, which versions write in different ways, is that of another one."""
    try:
        return from_json(told).to_json() == now
    except TokenizationError:
        return False


def find(key: str, store: Path | str = DEFAULT, *, trust: bool = False) -> tuple[Measurement, list[Path]]:
    """A run that kept weights, and the files of its restarts: that of the one that counts first.

    Args:
        key, trust: as in `load`.

    Raises:
        StoreError: when the store has no such run, or the run kept no weights.
        SpecError: when it is of a user's module that is not trusted.
    """
    truth("trust", trust)
    with Store(store, create=False) as opened:
        run = opened.find(key)
        paths = opened.kept_weights(run.key)
        there = exists(opened.weights_path(run.key), "store", StoreError)
    if (code := run.spec.model.runs_code) is not None and not trust:
        raise SpecError(
            f"trust: run {run.key[:12]} is of the module {code!r:.80}, whose code would be run; "
            "trust=True, or --trust where a command has it, allows it"
        )
    if not there:
        raise StoreError(
            f"key: run {run.key[:12]} kept no weights; measure it again with keep_weights, or, if {store} was merged, "
            "name the store that measured it"
        )
    refuse_too_large(run.spec)
    return run, paths


def kept(run: Measurement, path: Path) -> Ensemble[Any]:
    """One member with the weights that a run kept.

    Raises:
        StoreError: when they are not those of its model.
    """
    ensemble = initial(run.spec)
    ensemble.parameters = _weights(path, ensemble.parameters)
    return ensemble


def _weights(path: Path, expected: dict[str, Tensor]) -> dict[str, Tensor]:
    """One member's kept parameters, if they are those of its model.

    Args:
        expected: the parameters of such a model.

    Raises:
        StoreError: for a file that cannot be read, or that holds other tensors.
    """
    try:
        found = {name: tensor[None] for name, tensor in load_file(regular(path, "store", StoreError)).items()}
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise StoreError(f"store: cannot read {path}: {error}") from None
    for name in {**expected, **found}:
        here, wanted = (
            None if one is None else (one.shape, one.dtype) for one in (found.get(name), expected.get(name))
        )
        if here != wanted:
            raise StoreError(f"store: {path} does not hold the weights of its run: {name!r:.80} is missing or another")
        if found[name].isnan().any():
            raise StoreError(f"store: {path} does not hold the weights of its run: {name!r:.80} has what is no number")
    return found
