"""The papers that measured bits: verdicts on made-up densities that agree, that do not, and that cannot tell."""

from __future__ import annotations

import math

import numpy as np
import pytest
from synthetic import Made, interval, measurement, verdicts

from capax.papers.allenzhu2024.judges import most, two_bits
from capax.papers.evidence import field
from capax.papers.morris2025.judges import rows
from capax.papers.recipe import Evidence, Verdict, recipes
from capax.results import Amount, CapacityEstimate, Curve, Cycle, Measurement, Member
from capax.specs import Run


def answers(found: tuple[Verdict, ...]) -> list[str]:
    return [verdict.answer for verdict in found]


# Morris


def holding(
    density: float, power: float = 1.0, depth: float = 0.0, converged: bool = True, width: float = 0.02
) -> Made:
    """Networks of so many bits a parameter, at 5000 parameters and one layer."""

    def made(run: Run, rng: np.random.Generator) -> Measurement:
        parameters = run.model.parameter_counts(**run.task.sizes())["total"]
        layers = run.model.n_layers  # type: ignore[attr-defined]
        bits = density * parameters * (parameters / 5000) ** (power - 1) * layers**depth * rng.normal(1, 0.01)
        capacity = CapacityEstimate(
            bits=0.95 * bits,
            extrapolated=bits if converged else None,
            interval=interval((1 - width) * bits, (1 + width) * bits) if converged else None,
            converged=converged,
            last_gain=0.04,
            library_bits=2 * bits,
            library_sizes=(run.task.library_size,),
            per_effective_parameter=density,
            per_trainable_parameter=density,
            per_parameter=density,
        )
        return measurement(run, [1], capacity=capacity)

    return made


def test_counts_of_the_papers_networks_are_ours_to_a_percent() -> None:
    assert answers(verdicts("morris2025", "parameters", holding(1))) == ["agrees"]


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (holding(3.83), ["agrees", "agrees", "agrees"]),
        (holding(2.5), ["cannot be judged", "agrees", "agrees"]),
        (holding(5), ["differs", "agrees", "agrees"]),
        (holding(2.5, power=0.6), ["cannot be judged", "differs", "agrees"]),
        (holding(2.5, depth=-0.5), ["cannot be judged", "cannot be judged", "differs"]),  # too wide an interval
        (holding(3.83, converged=False), ["cannot be judged"] * 3),
    ],
)
def test_one_density_for_every_network(made: Made, expected: list[str]) -> None:
    assert answers(verdicts("morris2025", "density", made)) == expected


@pytest.mark.parametrize(
    ("made", "at_small", "at_paper"),
    [
        (holding(4.1), "agrees", "agrees"),
        (holding(2.5), "cannot be judged", "differs"),
        (holding(6.0), "differs", "differs"),
        (holding(6.0, converged=False), "differs", "differs"),
        (holding(2.5, converged=False), "cannot be judged", "cannot be judged"),
    ],
)
def test_a_row_of_the_table(made: Made, at_small: str, at_paper: str) -> None:
    """Less than the paper's, after a training of minutes, contradicts nothing."""
    assert answers(verdicts("morris2025", "rows", made, "small")) == [at_small] * 3
    assert answers(verdicts("morris2025", "rows", made, "paper")) == [at_paper] * 3


def test_the_paper_scale_can_hold_less_on_the_mean() -> None:
    assert answers(verdicts("morris2025", "density", holding(2.5), "paper"))[0] == "differs"


def test_rows_that_a_scale_does_not_train_are_not_judged() -> None:
    found = verdicts("morris2025", "rows", holding(4.1))
    assert answers(found) == ["cannot be judged"] * 3
    assert "is trained on 64 tokens of 2048 at this scale" in found[0].reason


def test_the_paper_scale_has_every_row() -> None:
    (recipe,) = recipes("morris2025", "rows")
    runs = recipe.runs("paper")
    assert {(field_of(run, "n_layers"), field_of(run, "d_model")) for run in runs} == set(rows())
    for run in runs:
        counted = run.model.parameter_counts(**run.task.sizes())["trainable"]
        assert counted == pytest.approx(rows()[field_of(run, "n_layers"), field_of(run, "d_model")][0], rel=0.01)


def field_of(run: Run, name: str) -> int:
    value: int = getattr(run.model, name)
    return value


def knowing(capacity: float, share: float = 1.0, rising: float = 0.0) -> Made:
    """A network that knows all of a library, or its capacity."""

    def made(run: Run, rng: np.random.Generator) -> Measurement:
        there = run.task.library_size * run.task.information_per_item()
        unknown = run.task.library_size * math.log2(run.task.library_size)  # which sequence comes next
        known = share * min(there - unknown, capacity * max(there / capacity, 1) ** rising)
        members = tuple(
            Member(
                member=place,
                library_size=run.task.library_size,
                memorized=1,
                epoch_of_best=1,
                epochs=1,
                steps=1,
                stop_reason="budget",
                unreachable=(),
                curve=Curve(epoch=(0,), memorized=(0,), loss=(None,)),
                cycles=(Cycle(epochs=1, steps=1, memorized=1, bits=known * rng.normal(1, 0.001), signed_bits=known),),
            )
            for place in range(4)
        )
        return measurement(run, [1], members=members)

    return made


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (knowing(4500), ["agrees", "agrees"]),
        (knowing(4500, share=0.8), ["differs", "agrees"]),
        (knowing(4500, rising=0.5), ["agrees", "differs"]),
        (lambda run, rng: measurement(run, [1]), ["cannot be judged"] * 2),
    ],
)
def test_plateau(made: Made, expected: list[str]) -> None:
    assert answers(verdicts("morris2025", "plateau", made)) == expected


# Allen-Zhu


def knows(late: float, early: float, adam: float = 1.0, spread: float = 0.01, perfect: bool = True) -> Made:
    """Networks that know so many bits a parameter after 1000 and 100 exposures, or all that there is."""

    def made(run: Run, rng: np.random.Generator) -> Measurement:
        bare = measurement(run, [1])
        held = (late if run.training.max_epochs == 1000 else early) * (adam if run.training.optimizer == "adam" else 1)
        parameters = bare.parameters.total
        every = most(bare) * (1.0 if perfect else 0.9)
        bits, around = min(held, every) * parameters, spread if held < every else 0.002  # what is full hardly differs
        amount = Amount(
            name="allen_zhu_bits",
            amount=bits,
            interval=interval((1 - around) * bits, (1 + around) * bits),
            per_trainable_parameter=bits / parameters,
            per_parameter=bits / parameters,
            per_effective_parameter=None,
        )
        return bare.model_copy(update={"units": (amount,)})

    return made


SMALL = ["cannot be judged"] * 4


@pytest.mark.parametrize(
    ("made", "expected", "by_soap"),
    [
        (knows(2.1, 1.2), ["agrees"] * 4, ["agrees"] * 4),
        (knows(1.9, 0.9), ["differs", "differs", "agrees", "agrees"], ["differs"] * 3 + ["agrees"]),
        (knows(2.1, 1.2, adam=0.8), ["differs", "differs", "agrees", "agrees"], ["agrees"] * 4),
        (knows(2.6, 1.2), ["agrees", "agrees", "differs", "agrees"], ["agrees"] * 4),
        (knows(2.28, 1.2, spread=0.02), ["agrees", "agrees", "cannot be judged", "agrees"], ["agrees"] * 4),
        (knows(2.1, 1.2, perfect=False), ["agrees", "agrees", "agrees", "differs"], ["agrees"] * 3 + ["differs"]),
        (
            knows(2.0, 1.0, spread=0.1),
            ["cannot be judged"] * 2 + ["agrees"] * 2,
            ["cannot be judged"] * 3 + ["agrees"],
        ),
    ],
)
def test_bits_by_exposures(made: Made, expected: list[str], by_soap: list[str]) -> None:
    """The paper's four claims are of a million parameters, which the demo does not have; those of SOAP are ours."""
    at_a_million = verdicts("allenzhu2024", "exposures", made, "paper")
    assert answers(at_a_million)[:4] == expected
    assert answers(verdicts("allenzhu2024", "exposures", made)) == [*SMALL, *by_soap]
    assert [one.answer for place, one in enumerate(at_a_million[4:]) if place != 2] == by_soap[:2] + by_soap[3:]
    assert at_a_million[6].reason == "no run of 1000 exposures by soap, of one layer"


def test_a_claim_of_a_million_parameters_is_not_judged_by_thousands() -> None:
    found = verdicts("allenzhu2024", "exposures", knows(2.2, 1.2))[:4]
    assert {one.reason for one in found} == {"the claim is of 1,000,000 parameters and more"}
    assert found[0].measured.startswith("2.2 (2.18 to 2.22) of 4376 parameters, 2 layers")


def test_a_network_whose_libraries_are_too_small_is_not_judged() -> None:
    """Eight layers without their largest library: 1.62 bits a parameter; the libraries of the others have enough."""
    (recipe,) = recipes("allenzhu2024", "exposures")
    made, rng = knows(2.2, 1.2), np.random.default_rng(0)
    runs = [made(run, rng) for run in recipe.runs("paper")]
    smaller = tuple(run for run in runs if run.library_size < 400_000)
    short = two_bits(Evidence(smaller, "paper"))
    assert (short.answer, short.reason) == ("cannot be judged", "no library of a network below has 2 bits a parameter")
    assert two_bits(Evidence(tuple(runs), "paper")).answer == "agrees"
    assert answers(verdicts("allenzhu2024", "exposures", knows(1.9, 0.9), "paper"))[:2] == ["differs", "differs"]


def test_a_network_is_not_below_while_the_interval_of_any_of_its_libraries_reaches_it() -> None:
    """The network of two layers knows 1.96, 1.94 to 1.98, of one library, and 1.95, 1.7 to 2.3, of a larger one."""
    (recipe,) = recipes("allenzhu2024", "exposures")
    rng = np.random.default_rng(0)
    runs = [
        knows(*((1.95, 0.95, 1.0, 0.15) if run.task.library_size >= 200_000 else (1.96, 0.96)))(run, rng)
        for run in recipe.runs("paper")
    ]
    found = two_bits(Evidence(tuple(runs), "paper"))
    assert (found.answer, found.reason) == ("cannot be judged", "the interval of a peak holds 2")


def test_nothing_finite_cannot_be_judged() -> None:
    found = verdicts("allenzhu2024", "exposures", lambda run, rng: measurement(run, [1]))
    assert answers(found) == ["cannot be judged"] * 8


def test_a_person_has_the_bits_that_the_paper_says() -> None:
    assert answers(verdicts("allenzhu2024", "bios", knows(2, 1))) == ["agrees"]


@pytest.mark.parametrize("scale", ["demo", "small", "paper"])
def test_libraries_have_more_and_less_than_networks_hold(scale: str) -> None:
    (recipe,) = recipes("allenzhu2024", "exposures")
    runs = [measurement(run, [1]) for run in recipe.runs(scale)]  # type: ignore[arg-type]
    assert min(map(most, runs)) <= 1.8
    for depth in {field(run, "n_layers") for run in runs}:
        assert max(most(run) for run in runs if field(run, "n_layers") == depth) >= 2.1
    assert {run.spec.training.max_epochs for run in runs} == {100, 1000}
