"""Bits a parameter that trained language models were measured to store. Rates, not bounds: others may store more."""

from __future__ import annotations

from capax.specs import Transformer
from capax.theory.bounds.bound import Assumption, Bound, Scope, Standing, bound

ALLEN_ZHU = 2.0
MORRIS = {"bf16": 3.51, "fp32": 3.83}
"""Mean over models, ± 0.1."""

NO_PARAMETERS = "the trainable parameters depend on seq_len or vocab_size, not given"


def gpt2_parameters(n_layers: int, d_model: int, vocab_size: int, length: int) -> int:
    """12 d² L + 13 d L + (V + S) d + 2 d: a GPT-2 with tied embeddings.

    Ours: it gives every parameter count in the table of Morris et al. 2025 that we compared.
    """
    blocks = n_layers * (12 * d_model**2 + 13 * d_model)
    return blocks + (vocab_size + length) * d_model + 2 * d_model


def rate_bounds(
    spec: Transformer, *, trainable: int | None, seq_len: int | None, vocab_size: int | None, precision: str | None
) -> tuple[Bound, ...]:
    """What models like this one were measured to store.

    Args:
        spec: the model.
        trainable: its trainable parameters.
        seq_len: tokens in a sequence.
        vocab_size: different tokens.
        precision: arithmetic of the training, where it is known.
    """
    trained = {spec.embeddings, spec.positions, spec.readout} == {"trained"}
    every = Assumption(text="all parameters are trained", met=trained, needed=False)
    deep = Assumption(text="at least 2 layers", met=spec.n_layers >= 2, needed=False)
    tied = Assumption(text="GPT-2 with tied embeddings", met=False, needed=False)
    long = Assumption(text="trained until nothing more is stored (10^6 steps)", met=None, needed=False)
    gpt2 = None
    if seq_len is not None and vocab_size is not None:
        gpt2 = gpt2_parameters(spec.n_layers, spec.d_model, vocab_size, seq_len)
    rows = [
        _rate(
            "allen_zhu2025",
            ALLEN_ZHU,
            trainable,
            f"{ALLEN_ZHU:g} P, P trainable parameters",
            "facts about names (name, attribute, value), 1000 exposures each; trained weights",
            (
                every,
                deep,
                Assumption(text="each fact is seen 1000 times", met=None, needed=False),
                Assumption(text="GPT-2 with rotary positions, heads of 64", met=False, needed=False),
            ),
            "model",
            "Allen-Zhu, Li 2025 (arXiv 2404.05405)",
        )
    ]
    for name, rate in MORRIS.items():
        arithmetic = {"bf16": ("bfloat16",), "fp32": ("float32", "float64")}[name]
        met = None if precision is None else precision in arithmetic
        trains = Assumption(text=f"trained in {name}", met=met, needed=False)
        criterion = "random tokens, entropy minus cross-entropy in bits; trained weights"
        source = "Morris et al. 2025 (arXiv 2505.24832), table of rates"
        rows += [
            _rate(
                f"morris2025_{name}",
                rate,
                trainable,
                f"{rate:g} P, P trainable parameters counted from the tensors",
                criterion,
                (every, tied, trains, long),
                "model",
                source,
            ),
            _rate(
                f"morris2025_{name}_gpt2",
                rate,
                gpt2,
                f"{rate:g} P, P = 12 d² L + 13 d L + (V + S) d + 2 d" + ("" if gpt2 is None else f" = {gpt2}"),
                f"{criterion}; a GPT-2 of the same depth, width and vocabulary",
                (trains, long),
                "reference",
                f"{source}; the formula of its parameters is ours",
                missing="seq_len and vocab_size are not given",
            ),
        ]
    return tuple(rows)


def _rate(
    name: str,
    rate: float,
    parameters: int | None,
    formula: str,
    criterion: str,
    assumptions: tuple[Assumption, ...],
    scope: Scope,
    source: str,
    *,
    missing: str = NO_PARAMETERS,
    standing: Standing = "read",
) -> Bound:
    value = None if parameters is None else rate * parameters
    return bound(
        name,
        kind="rate",
        value=value,
        missing=missing,
        unit="bits",
        bits=value,
        formula=formula,
        criterion=criterion,
        assumptions=assumptions,
        scope=scope,
        source=source,
        standing=standing,
    )
