"""What was measured and how, in words."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from capax.figures.groups import Group
from capax.specs import (
    Associations,
    AssociativeAttention,
    Budget,
    KeyQueryChannel,
    Mac,
    Mls,
    Module,
    Relations,
    Run,
    Sequences,
    Shatter,
    Training,
    Transformer,
)

MOST_VALUES = 6
"""Values that are named one by one."""


def of_runs(number: int) -> str:
    """So many runs."""
    return f"{number} run{'s' * (number != 1)}"


def listed(values: Collection[int]) -> str:
    """Numbers in words: whole ranges by their ends, few ones by name."""
    ordered = sorted(set(values))
    first, last = ordered[0], ordered[-1]
    if len(ordered) > 2 and last - first == len(ordered) - 1:
        return f"{first} to {last}"
    if len(ordered) > MOST_VALUES:
        return f"{first} to {last} ({len(ordered)} of them)"
    return together([str(value) for value in ordered])


def together(words: Sequence[str]) -> str:
    """Words as a list."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def counted(values: Collection[int], one: str) -> str:
    """So many things: 1 head, 1 to 4 heads."""
    return f"{listed(values)} {one}{'s' * (set(values) != {1})}"


def task(runs: Sequence[Run]) -> str:
    """What was to be remembered by runs that differ in sizes alone, and when it counts."""

    def sizes(name: str) -> list[int]:
        return [getattr(run.task, name) for run in runs]

    libraries = set(sizes("library_size"))
    number = f"{'libraries of ' if len(libraries) > 1 else ''}{listed(libraries)}"
    if isinstance(runs[0].protocol, Mls):
        number = f"libraries of up to {listed(libraries)}"
    match runs[0].task:
        case Sequences() as spec:
            origin = {"random": "random sequences", "all": "sequences (every prefix)"}.get(
                spec.library, f"sequences of {_users(spec.library, spec)}"
            )
            repeated = ", repeated prefixes kept," if spec.duplicates == "keep" else ""
            covered = "the last position" if spec.loss == "last" else "all positions"
            recalled = "its last token" if spec.recall == "last" else "every next token"
            return (
                f"{number} {origin}{repeated} of {listed(sizes('seq_len'))} tokens over {spec.vocab_size} tokens; "
                f"the loss covers {covered}; a sequence counts when {recalled} has the highest score"
            )
        case Associations() as spec:
            origin = (
                "random associations" if spec.library == "random" else f"associations of {_users(spec.library, spec)}"
            )
            drawn = {"shared": "shared by all", "fresh": "one each", "bag": f"drawn from {spec.bag_size} tokens"}
            if spec.labels == "classes":
                label, counts = f"one of {spec.n_classes} classes", "its class has the highest score"
            else:
                label = f"{spec.labels} labels of {counted([spec.d_out], 'number')}"
                counts = f"no number of its label is further off than {spec.tolerance:g}"
            return (
                f"{number} {origin}: contexts of {counted(sizes('context_size'), 'token')} ({drawn[spec.contexts]}), "
                f"{label}, {spec.entries} entries; an example counts when {counts}"
            )
        case Relations() as spec:
            kind = spec.graph.replace("_", "-")
            graph = f"a {kind} graph" if spec.library == "random" else _users(spec.graph, spec)
            degree = f" of degree {listed(sizes('degree'))}" if spec.degree is not None else ""
            vectors = {"gaussian": "Gaussian", "onehot": "one-hot", "low_coherence": "low-coherence"}.get(
                spec.embeddings, _users(spec.embeddings, spec)
            )
            asked = {
                "whole": "pairs of all items are asked for",
                "uniform": f"pairs in random contexts of {spec.context_size} items are asked for",
                "targets": f"pairs in contexts of {spec.context_size} items, half of them sources with a target each, "
                "are asked for",
            }[spec.contexts]
            return (
                f"{number} relations: edges of {graph}{degree} of {listed(sizes('n_items'))} items ({vectors} vectors);"
                f" {asked}; an edge counts when its score is above the threshold"
            )
        case spec:
            return f"{number} {spec.unit} ({spec.words()})"


def _users(path: str, spec: Sequences | Associations | Relations) -> str:
    return f"the user's {Path(path).name} (sha256 {spec.library_sha256 or '':.8}…)"


def model(runs: Sequence[Run]) -> str:
    """What remembered, of runs that differ in sizes alone."""

    def sizes(name: str) -> list[int]:
        return [getattr(run.model, name) for run in runs]

    def heads() -> str:
        many, given = sizes("n_heads"), [size for size in sizes("d_head") if size is not None]
        if isinstance(runs[0].protocol, Budget):
            many = [count for run in runs if isinstance(run.protocol, Budget) for count in run.protocol.head_counts]
        each = f" of {counted(given, 'channel')}" if given else ", their size searched for"
        return f"{counted(many, 'head')}{each}"

    def values() -> str:
        given = [size for size in sizes("d_value") if size is not None]
        return f" (values of {listed(given)})" if given else ""

    def widths() -> str:
        every = sizes("d_model")
        return f"width{'s' * (len(set(every)) > 1)} {listed(every)}"

    match runs[0].model:
        case Transformer() as spec:
            ffn = {"mlp": f"FFN trained ({spec.activation})", "identity": "FFN the identity", "none": "no FFN"}[
                spec.ffn
            ]
            parts = {"token table": spec.embeddings, "positions": spec.positions, "read-out": spec.readout}
            states = [
                f"{together(names)} {state}"
                for state in ("trained", "frozen")
                if (names := [name for name, is_now in parts.items() if is_now == state])
            ]
            without = [f"no {what}" for what, on in (("norms", spec.norms), ("skips", spec.skips)) if not on]
            layers = counted(sizes("n_layers"), "layer")
            return "; ".join([f"a transformer of {layers}, {heads()}{values()}, {widths()}", ffn, *states, *without])
        case AssociativeAttention() as spec:
            return f"an attention layer ({spec.profile}), {heads()}{values()}, {widths()}"
        case KeyQueryChannel() as spec:
            joined = "their maximum" if spec.aggregate == "max" else "their sum"
            return f"a key-query channel ({spec.channel}), {heads()}, joined by {joined}, {widths()}"
        case Module() as spec:
            return f"the user's module {spec.name} (sha256 {spec.source_sha256:.8}…)"
        case spec:
            return spec.words(runs[0].protocol)


def protocol(run: Run) -> str:
    """How a count is made of trainings."""
    match run.protocol:
        case Mac() as spec:
            return f"the best of {spec.restarts} restart{'s' * (spec.restarts != 1)} on one library"
        case Mls() as spec:
            return (
                f"the largest library memorized whole: 50 % point of up to {spec.max_trainings} trainings, "
                f"{spec.seeds} a round from {spec.first_size} on, until its interval is narrower than "
                f"{spec.interval_width:.0%}"
            )
        case Shatter() as spec:
            return f"epochs until the library is whole, over {spec.trials} trials"
        case Budget() as spec:
            how = "half of the trainings reach" if spec.criterion == "half" else "the mean reaches"
            return (
                f"the smallest total key dimension at which {how} F1 {spec.target_f1:g}, {spec.restarts} trainings a "
                f"head size, up to {spec.max_trainings} a search"
            )


def training(runs: Sequence[Run]) -> str:
    """How each member learned, and when it stopped."""
    spec = runs[0].training
    ends = []
    if spec.patience is not None:
        ends.append(
            f"{spec.patience} evaluations without one more item or a loss {100 * spec.min_loss_drop:.3g} % lower"
        )
    if spec.max_epochs is not None:
        least = "" if spec.min_steps is None else f" (at least {counted([spec.min_steps], 'step')})"
        ends.append(f"{counted([spec.max_epochs], 'epoch')}{least}")
    if spec.max_steps is not None:
        ends.append(counted([spec.max_steps], "step"))
    if spec.time_limit is not None:
        ends.append(f"{spec.time_limit:g} seconds")
    ends += ["the library is complete"] if spec.stop_when_complete else []
    whole = all(spec.batch_size >= run.task.library_size for run in runs)
    batch = "the whole library" if whole else str(spec.batch_size)
    usual = spec.beta2 == Training.model_fields["beta2"].default
    rate = f"Adam at {spec.lr:g}{'' if usual else f' (beta2 {spec.beta2:g})'}, {spec.schedule}"
    warmup = f" after a warm-up over {100 * spec.warmup:.3g} % of the budget" if spec.warmup else ""
    number, unit = (spec.eval_every, "epoch") if spec.eval_steps is None else (spec.eval_steps, "step")
    return (
        f"{rate}{warmup}, batches of {batch}, {spec.precision}{', compiled' if spec.compile else ''}, evaluated every "
        f"{unit if number == 1 else f'{number} {unit}s'}; until {' or '.join(ends)}"
    )


LOSSES = {
    "tokens": "nats per token that it covers",
    "examples": "nats per example of classes, mean squared error of real labels",
    "pairs": "binary cross-entropy in nats, summed over pairs by their importance",
}
"""What the training loss is, by what a task's model is given (`Task.reads`)."""


def kind(group: Group) -> str:
    """One kind of runs in a few sentences."""
    runs = [run.spec for run in group.runs]
    return f"{task(runs)}. Model: {model(runs)}. Count: {protocol(runs[0])}. Training: {training(runs)}."
