"""Self-checks of a model: faults that training does not show, and that make a count of what it remembers worthless.

Each check has passed, failed, or cannot be judged, with its evidence. The model itself is not changed: the checks run
on a copy, and torch's random state is restored.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Annotated, Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from capax.arrays import taken
from capax.checks import score_scale
from capax.checks.subject import ROWS, OneMember, Subject, subject_of
from capax.errors import SpecError
from capax.models.factory import ModuleError, seeded
from capax.models.module import reported
from capax.models.module_traits import between_seeds, some, tolerance, varied
from capax.results import Parameters, Result
from capax.seeds import numpy_generator
from capax.specs import Model, Run, Sequences, Task
from capax.specs.spec import whole
from capax.tasks import sequences
from capax.tasks.sequence_files import repeated_prefixes
from capax.training.room import refuse_too_large

Verdict = Literal["passed", "failed", "cannot be judged"]
Name = Literal[
    "batch independence",
    "tokens reach the score",
    "no look ahead",
    "nothing random",
    "nothing kept",
    "score scale",
    "library",
    "parameters are trained",
    "seeds",
    "no tensor twice",
]
QUESTIONS: dict[Name, str] = {
    "batch independence": "an example's scores do not depend on the others in its batch",
    "tokens reach the score": "every token of the context changes the scores of the last position",
    "no look ahead": "no token reaches the scores of an earlier position, whose target it may be",
    "nothing random": "two passes in eval mode are the same",
    "nothing kept": "a pass does not depend on those before it",
    "score scale": "attention scores are divided by √d_head",
    "library": "no item repeats or contradicts another",
    "parameters are trained": "every parameter that requires a gradient gets one, and an optimizer holds it",
    "seeds": "weights follow from the seed, and differ between seeds",
    "no tensor twice": "no two parameters begin with the same numbers",
}
STEPS = 3
"""Steps of Adam in which a parameter must get a gradient: behind a gate that begins at zero it does after the first."""


class ModelCheck(Result):
    """One check of a model."""

    check: Name
    statement: Annotated[str, Field(description="What holds where it is passed.")]
    verdict: Verdict
    evidence: str


class ModelReport(Result):
    """The checks of a model."""

    model: str
    seq_len: int
    vocab_size: int
    loss: Literal["all", "last"]
    recall: Literal["all", "last"]
    seed: int
    parameters: Parameters
    frozen: Annotated[tuple[str, ...], Field(description="Parameters that are not to be trained.")]
    checks: tuple[ModelCheck, ...]
    schema_version: Literal[1] = 1

    @property
    def failed(self) -> tuple[str, ...]:
        """The checks that failed, with their evidence."""
        return tuple(f"{one.check}: {one.evidence}" for one in self.checks if one.verdict == "failed")


def check_model(
    model: nn.Module | Callable[[], nn.Module] | Model,
    task: Task | None = None,
    *,
    items: Any = None,
    optimizer: torch.optim.Optimizer | None = None,
    seed: int = 0,
) -> ModelReport:
    """Look for faults in a model that maps tokens `(batch, n)` to scores `(batch, n, vocab_size)` or those of the last.

    Args:
        model: a module; what makes one without arguments; or a spec. Whether seeds are reused is judged for those that
            can be made again.
        task: its sizes, and which positions are scored; that of `Sequences()` when not given. A `library` that is a
            file, or drawn, is looked through.
        items: sequences `(items, seq_len)` to look through instead.
        optimizer: what trains a module that is given itself.
        seed: of the random tokens and weights.

    Raises:
        SpecError: for something else than such a model, an optimizer without its module, or items of another shape.
        ModuleError: when the model fails, or gives something else than scores.
    """
    task = task or Sequences()
    if optimizer is not None and not isinstance(model, nn.Module):
        raise SpecError("optimizer: only with the module itself, whose parameters it holds")
    whole("seed", seed, 0)
    if task.reads != "tokens":
        raise SpecError(f"task: one of tokens, got {task.task!r}, of which a model reads {task.reads}")
    if isinstance(model, Model):
        refuse_too_large(Run(task=task, model=model))
    subject = subject_of(model, task, seed)
    if not any(parameter.requires_grad for parameter in subject.module.parameters()):
        raise ModuleError(f"module: {subject.name} has no parameter to train")
    judged: dict[Name, tuple[Verdict, str]] = {
        "batch independence": _batch_independence(subject),
        "tokens reach the score": _reach(subject),
        "no look ahead": _look_ahead(subject),
        "nothing random": _nothing_random(subject),
        "nothing kept": _nothing_kept(subject),
        "score scale": _scale(subject, model),
        "library": _library(task, items, seed),
        "parameters are trained": _trained(subject, model, optimizer),
        "seeds": _seeds(subject),
        "no tensor twice": _no_tensor_twice(subject.module),
    }
    named = dict(subject.module.named_parameters())
    sizes = {name: parameter.numel() for name, parameter in named.items()}
    trainable = sum(size for name, size in sizes.items() if named[name].requires_grad)
    return ModelReport(
        model=subject.name,
        seq_len=task.sizes()["context"] + 1,
        vocab_size=subject.vocab_size,
        loss=task.scored("loss"),
        recall=task.scored("recall"),
        seed=seed,
        parameters=Parameters(trainable=trainable, total=sum(sizes.values())),
        frozen=tuple(name for name, parameter in named.items() if not parameter.requires_grad),
        checks=tuple(
            ModelCheck(check=name, statement=QUESTIONS[name], verdict=verdict, evidence=evidence)
            for name, (verdict, evidence) in judged.items()
        ),
    )


def _batch_independence(subject: Subject) -> tuple[Verdict, str]:
    tokens, others = subject.tokens("rows"), subject.tokens("other rows")
    others[0] = tokens[0]
    reversed_ = tokens.flip(0)
    for training in (False, True):
        mode = "train" if training else "eval"
        scores = subject.scores(tokens, training)
        exchanged = float((subject.scores(others, training)[0] - scores[0]).abs().max())
        if exchanged > tolerance(scores):
            return "failed", (
                f"in {mode} mode the scores of an example change by {exchanged:.2g} (largest score "
                f"{float(scores.abs().max()):.2g}) when the {ROWS - 1} others of its batch are exchanged"
            )
        moved = 0.0 if training else float((subject.scores(reversed_).flip(0) - scores).abs().max())
        if moved > tolerance(scores):
            return "failed", f"the scores of an example change by {moved:.2g} with its position in the batch"
    return "passed", f"the same to {tolerance(scores):.1g} when the {ROWS - 1} others are exchanged, in either mode"


def _reach(subject: Subject) -> tuple[Verdict, str]:
    tokens = subject.tokens("reach")
    scores = subject.scores(tokens)
    positions = range(tokens.shape[1])
    changes = [_change(subject, tokens, scores, position)[:, -1] for position in positions]
    silent = [position + 1 for position in positions if float(changes[position].max()) <= tolerance(scores)]
    if silent:
        which = f"position{'s' * (len(silent) > 1)} {some(silent)} of {tokens.shape[1]}"
        return "failed", f"another token at {which} changed no score of the last, in {ROWS} random contexts"
    which = f"each of {tokens.shape[1]} positions" if tokens.shape[1] > 1 else "the one position"
    return "passed", f"{which} changed them, in {ROWS} random contexts"


def _change(subject: Subject, tokens: Tensor, scores: Tensor, position: int) -> Tensor:
    """How much scores change, in absolute value, when one position of every context has another token."""
    other = tokens.clone()
    other[:, position] += 1 + subject.tokens("shift")[:, 0] % (subject.vocab_size - 1)
    return (subject.scores(other % subject.vocab_size) - scores).abs()


def _look_ahead(subject: Subject) -> tuple[Verdict, str]:
    tokens = subject.tokens("ahead")
    scores = subject.scores(tokens)
    if scores.shape[1] == 1:
        return "cannot be judged", "it scores only the last position, and no token follows that"
    for position in range(1, tokens.shape[1]):
        changed = _change(subject, tokens, scores, position)[:, :position].amax((0, 2))
        reached = (changed > tolerance(scores)).nonzero().flatten()
        if len(reached):
            found = f"the token at position {position + 1} changes the scores of position {int(reached[0]) + 1}"
            if subject.every_position:
                return "failed", f"{found}: targets are seen before they are predicted (no causal mask?)"
            return "passed", f"{found}, but the task scores only the last position"
    return "passed", f"none of {tokens.shape[1]} positions reaches an earlier one, in {ROWS} random contexts"


def _nothing_random(subject: Subject) -> tuple[Verdict, str]:
    tokens = subject.tokens("random")
    first, second = subject.scores(tokens, seed=1), subject.scores(tokens, seed=2)
    difference = float((first - second).abs().max())
    if difference > 0:
        return "failed", f"in eval mode, two passes over the same tokens differ by {difference:.2g}"
    rates = _dropout_rates(subject.module)
    trained = float((subject.scores(tokens, True, 1) - subject.scores(tokens, True, 2)).abs().max())
    dropout = _rates_in_words(rates) if rates else "no dropout module"
    return "passed", f"identical; in train mode: {dropout}, and two passes {'differ' if trained else 'are the same'}"


def _nothing_kept(subject: Subject) -> tuple[Verdict, str]:
    tokens, others = subject.tokens("kept"), subject.tokens("between")
    for training in (False, True):
        first, _, again = subject.passes([tokens, others, tokens], training)
        difference = float((first - again).abs().max())
        if difference > tolerance(first):
            mode = "train" if training else "eval"
            return "failed", f"in {mode} mode, a pass over other tokens changes the next scores by {difference:.2g}"
    return "passed", "the same scores before and after a pass over other tokens, in either mode"


def _dropout_rates(module: nn.Module) -> dict[str, float]:
    """Rates above zero, by the name of the module that has them."""
    found = {}
    for name, one in module.named_modules():
        if isinstance(one, nn.modules.dropout._DropoutNd) and one.p > 0:
            found[name] = float(one.p)
        elif isinstance(one, nn.MultiheadAttention) and one.dropout > 0:
            found[name] = float(one.dropout)
    return found


def _rates_in_words(rates: dict[str, float]) -> str:
    groups = {rate: [name for name, value in rates.items() if value == rate] for rate in rates.values()}
    return "; ".join(f"dropout {rate:g} in {some(names)}" for rate, names in groups.items())


def _scale(subject: Subject, model: Any) -> tuple[Verdict, str]:
    module = copy.deepcopy(subject.module).eval()
    mixer = getattr(module.ensemble(), "mixer", None) if isinstance(module, OneMember) else None
    if mixer is not None:  # its fast ways form no scores; tests hold them to the definition
        inputs = torch.zeros(1, 1, 2, model.d_model)
        seen = score_scale.watch(lambda: mixer(0).definition(inputs))
    else:
        tokens = subject.tokens("scale")
        with reported(subject.name), seeded(0):
            seen = score_scale.watch(lambda: module(tokens))
    if not seen:
        return "cannot be judged", "no attention was seen: neither torch's own nor a softmax of a product"
    found = dict.fromkeys(score_scale.in_words(one, score_scale.widths(module)) for one in seen)
    verdict: Verdict = "passed" if all(good for good, _ in found) else "failed"
    return verdict, f"{len(seen)} seen: {'; '.join(words for _, words in found)}"


def _library(task: Task, items: Any, seed: int) -> tuple[Verdict, str]:
    library, last = task.library_type(), task.scored("recall") == "last"
    if items is not None:
        rows = _checked(task, items)
    elif last and hasattr(library, "draw"):
        rows = library.draw(task, task.library_size, numpy_generator(seed, "library", 0))
    else:  # rows of facts and people begin alike: the task knows what contradicts
        return _recallable(task, seed)
    repeats = len(rows) - len(np.unique(rows, axis=0))
    contradicting = len(rows) - sequences.reachable_items(rows, "last" if last else "all")
    problems: list[str] = []
    if repeats:
        problems.append(f"{repeats} of {len(rows)} repeat others")
    if contradicting:
        why = "one prefix, two targets" if last else "one first token, two sequences"
        problems.append(f"{contradicting} of {len(rows)} contradict others ({why})")
    if not problems:
        return "passed", f"{len(rows)} items, no two equal, none contradicts another"
    pair = repeated_prefixes(rows)
    first = "" if pair is None else f"; the first with one prefix: items {pair[0] + 1} and {pair[1] + 1}"
    return "failed", f"{', '.join(problems)}{first}"


def _checked(task: Task, items: Any) -> np.ndarray:
    """The user's items, of the task's length and vocabulary.

    Raises:
        SpecError: for others.
    """
    seq_len, vocab_size = task.sizes()["context"] + 1, task.sizes()["vocab_size"]
    rows = taken("items", items, SpecError)
    if rows.ndim != 2 or rows.shape[1] != seq_len or not np.issubdtype(rows.dtype, np.integer):
        raise SpecError(f"items: integers (items, {seq_len}), got {rows.dtype} of shape {tuple(rows.shape)}")
    if not len(rows) or rows.min() < 0 or rows.max() >= vocab_size:
        raise SpecError(f"items: at least one, of tokens 0..{vocab_size - 1}")
    return rows


def _recallable(task: Task, seed: int) -> tuple[Verdict, str]:
    """Whether all items of the task's own library can be recalled, and no two are equal."""
    library, size = task.library_type(), task.library_size
    recallable, notes = library.remarks(task, size, numpy_generator(seed, "library", 0))
    problems = list(notes) if recallable < size else []
    if hasattr(library, "draw"):  # facts are a table, in which each counts once
        rows = library.draw(task, size, numpy_generator(seed, "library", 0))
        if repeats := len(rows) - len(np.unique(rows, axis=0)):
            problems.append(f"{repeats} of {len(rows)} repeat others")
    if problems:
        return "failed", "; ".join(problems)
    return "passed", f"{size} items, no two equal, none contradicts another"


def _trained(subject: Subject, model: Any, optimizer: torch.optim.Optimizer | None) -> tuple[Verdict, str]:
    module = copy.deepcopy(subject.module).train()
    named = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
    untouched = dict.fromkeys(named)
    adam = torch.optim.Adam(named.values(), lr=1e-3)
    with seeded(0):
        for step in range(STEPS):
            tokens = subject.tokens(f"trained {step}")
            targets = torch.cat([tokens[:, 1:], subject.tokens(f"targets {step}")[:, :1]], 1)
            with reported(subject.name):
                scores = module(tokens)
            if subject.task.scored("loss") == "last" or scores.dim() == 2:
                scores = scores if scores.dim() == 2 else scores[:, -1]
                targets = targets[:, -1]
            adam.zero_grad()
            if not scores.requires_grad:
                return "failed", "the scores have no gradient at all"
            F.cross_entropy(scores.flatten(0, -2), targets.flatten()).backward()
            for name, parameter in named.items():
                if parameter.grad is not None and bool(parameter.grad.any()):
                    untouched.pop(name, None)
            adam.step()
    frozen = [name for name, parameter in module.named_parameters() if not parameter.requires_grad]
    not_trained = f"; frozen: {some(frozen)}" if frozen else ""
    problems = [f"no gradient reaches {some(list(untouched))}"] if untouched else []
    if optimizer is not None:
        held = {id(p) for group in optimizer.param_groups if group["lr"] != 0 for p in group["params"]}
        missing = [n for n, p in model.named_parameters() if p.requires_grad and id(p) not in held]
        problems += [f"the optimizer does not train {some(missing)}"] if missing else []
    if problems:
        return "failed", f"{', and '.join(problems)}{not_trained}"
    return "passed", f"all {len(named)} tensors got a gradient in {STEPS} steps on random tokens{not_trained}"


def _seeds(subject: Subject) -> tuple[Verdict, str]:
    if subject.make is None:
        return "cannot be judged", "a module alone cannot be made again: give what makes it"
    first, again, other = (
        dict(subject.make(seed).named_parameters()) for seed in (subject.seed, subject.seed, subject.seed + 1)
    )
    moved = [name for name in first if name not in again or not torch.equal(first[name], again[name])]
    if moved:
        return "failed", f"one seed gives two sets of weights: {some(moved)} (drawn from another generator?)"
    _, in_common = between_seeds(first, other)
    if in_common is not None:
        return "failed", in_common
    drawn = [name for name, tensor in first.items() if varied(tensor)]
    same = [name for name in drawn if name in other and torch.equal(first[name], other[name])]
    kept = f"; the same, and frozen: {some(same)}" if same else ""
    return "passed", f"{len(drawn) - len(same)} tensors differ between two seeds, and repeat for one{kept}"


def _no_tensor_twice(module: nn.Module) -> tuple[Verdict, str]:
    groups: dict[tuple[int, ...], list[tuple[str, Tensor]]] = {}
    pairs = []
    for name, tensor in module.named_parameters():
        known = groups.setdefault(tuple(tensor.shape), [])
        twin = next((other for other, values in known if torch.equal(values, tensor)), None)
        if twin is not None and varied(tensor):
            pairs.append(f"{name} = {twin}")
        else:
            known.append((name, tensor))
    if pairs:
        return "failed", f"equal numbers: {some(pairs)} (a layer copied, not drawn anew?)"
    return "passed", "all parameters of one shape differ, but for constant ones"
