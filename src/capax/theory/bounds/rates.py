"""Bits a parameter that trained language models were measured to store. Rates, not bounds: others may store more."""

from __future__ import annotations

from functools import partial

from capax.literature import stated_by
from capax.theory.bounds.bound import Declarer, bound, differs

ALLEN_ZHU: float = stated_by("allenzhu2024")["stated"]["bits_per_parameter"]
MORRIS: dict[str, float] = stated_by("morris2025")["stated"]["bits_per_parameter"]
"""Means over models, ± 0.1."""
NAMES = {"bf16": "bfloat16", "fp32": "float32"}
COMPUTED_IN = {"bf16": ("bfloat16",), "fp32": ("float32", "float64")}

EVERY = differs("all parameters are trained", "all_trained")
TIED = differs("GPT-2 with tied embeddings", lambda attention: False)  # ours is none; of others it is not known
LONG = differs("trained for 10^6 steps")
TABLE_OF_RATES = "Morris et al. 2025 (arXiv 2505.24832), table of rates"
TOKENS = "random tokens, entropy minus cross-entropy in bits; trained weights"

rate_of: Declarer = partial(
    bound, kind="rate", unit="bits", standing="read", reads=("tokens",), bits=lambda value: value
)
"""Declare a rate."""


def gpt2_parameters(n_layers: int, d_model: int, vocab_size: int, length: int) -> int:
    """12 d² L + 13 d L + (V + S) d + 2 d: a GPT-2 with tied embeddings.

    Ours: it gives every parameter count in the table of Morris et al. 2025 that we compared.
    """
    blocks = n_layers * (12 * d_model**2 + 13 * d_model)
    return blocks + (vocab_size + length) * d_model + 2 * d_model


@rate_of(
    formula=f"{ALLEN_ZHU:g} P, P trainable parameters",
    criterion="facts about names (name, attribute, value), 1000 exposures each; trained weights",
    scope="model",
    source="Allen-Zhu and Li 2024 (arXiv 2404.05405)",
    assumptions=(
        EVERY,
        differs("at least 2 layers", lambda n_layers: n_layers >= 2),
        differs("1,000,000 parameters and more", lambda trainable: trainable >= 1_000_000),
        differs("each fact is seen 1000 times"),
        differs("GPT-2 with rotary positions, heads of 64", lambda attention: False),
    ),
)
def allenzhu2024(trainable: int) -> float:
    """2 bits a parameter."""
    return ALLEN_ZHU * trainable


def _morris(name: str, rate: float) -> None:
    """Declare a rate, of the trainable parameters and of those of a GPT-2."""
    trained = differs(f"trained in {name}", lambda precision: precision in COMPUTED_IN[name])

    @rate_of(
        name=f"morris2025_{name}",
        formula=f"{rate:g} P, P trainable parameters counted from the tensors",
        criterion=TOKENS,
        scope="model",
        source=TABLE_OF_RATES,
        assumptions=(EVERY, TIED, trained, LONG),
    )
    def of_the_model(trainable: int) -> float:
        return rate * trainable

    @rate_of(
        name=f"morris2025_{name}_gpt2",
        formula=f"{rate:g} P, P = 12 d² L + 13 d L + (V + S) d + 2 d",
        criterion=f"{TOKENS}; a GPT-2 of the same depth, width and vocabulary",
        scope="reference",
        source=f"{TABLE_OF_RATES}; the formula of its parameters is ours",
        assumptions=(trained, LONG),
    )
    def of_a_gpt2(gpt2: int) -> float:
        return rate * gpt2


for _name, _precision in NAMES.items():
    _morris(_name, MORRIS[_precision])
