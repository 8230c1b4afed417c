"""`capax calibrate`: does capax measure what is known?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.table import Table

from capax import outputs
from capax.calibration.calibrate import CalibratedSystem, Calibration, LiteratureClaim
from capax.calibration.calibrate import calibrate as measured
from capax.cli import output
from capax.cli.flags import Flag, Json
from capax.errors import CalibrationFailed, SpecError
from capax.papers.reproduce import reproduce
from capax.text import duration

LITERATURE = ("morris2025", "allenzhu2024")
"""Papers that measured what networks hold in bits."""


def calibrate(
    *,
    only: Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")] = None,
    seed: int = 0,
    literature: Annotated[bool, Flag] = False,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    as_json: Json = False,
) -> None:
    """Measure systems of known capacity by the protocols and searches that measure a transformer.

    Exits with 1 if one is off by more than its tolerance, which follows from theory and finite size. Takes some
    70 s on one core.

    Parameters
    ----------
    only
        Systems to measure: perceptron, perceptron-exact, hopfield-all, hopfield-half, hopfield-retrieval,
        memory-least-squares, memory-trained, attention-memory, key-query. [default: all]
    seed
        Names all random draws; the same seed gives the same result.
    literature
        Also hold capax against papers that measured bits, as `capax reproduce morris2025` and `allenzhu2024` do at
        scale demo: some minutes more. Verdicts, none of which makes a system off.
    out
        Folder of these reproductions; runs that are there are not repeated. [default: reproduction]
    """
    if out is not None and not literature:
        raise SpecError(f"out: only with --literature, got {out}")
    folder = out or Path("reproduction")
    if literature:
        outputs.check_folder(folder)
    with output.console(stderr=True).status("") as status:
        found = measured(only, seed, status.update)
        if literature:
            found = found.model_copy(update={"literature": _claims(folder, status.update)})
    output.emit(found, _show, as_json=as_json)
    if found.off:
        reasons = "; ".join(f"{one.system}: {one.reason}" for one in found.systems if one.verdict == "off")
        raise CalibrationFailed(f"calibration failed: {reasons}")


def _claims(folder: Path, progress: Any) -> tuple[LiteratureClaim, ...]:
    claims = []
    for paper in LITERATURE:
        progress(paper)
        for recipe in reproduce(paper, folder=folder).recipes:
            for claim in recipe.claims:
                told = {name: getattr(claim, name) for name in ("says", "value", "standing", "measured", "reason")}
                claims.append(LiteratureClaim(paper=paper, figure=recipe.figure, verdict=claim.answer, **told))
    return tuple(claims)


def _show(found: Calibration) -> None:
    screen = output.console()
    table = Table(box=None, pad_edge=False)
    table.add_column("system", no_wrap=True)
    for name in ("known", "measured", "95% interval", "tolerance"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for one in found.systems:
        high = "∞" if one.interval.high is None else f"{one.interval.high:.4g}"
        table.add_row(
            one.system,
            f"{one.known.value:.4g}",
            f"{one.measured:.4g}",
            f"{one.interval.low:.4g} to {high}",
            f"± {one.tolerance:.3g}",
            one.verdict,
        )
    screen.print(table)
    for one in found.systems:
        screen.print(f"\n{one.system}", style="bold")
        screen.print("\n".join(_about(one)))
    for paper in dict.fromkeys(claim.paper for claim in found.literature):
        screen.print(f"\n{paper}", style="bold")
        for claim in (claim for claim in found.literature if claim.paper == paper):
            value = f": {claim.value}" if claim.value else ""
            screen.print(f"{claim.says}{value} ({claim.standing})", highlight=False)
            said = "; ".join(filter(None, (claim.measured, claim.reason)))
            screen.print(f"  {claim.verdict}: {said}", highlight=False)
    holding = len(found.systems) - len(found.off)
    screen.print(f"\n{holding} of {len(found.systems)} hold; seed {found.seed}, {duration(found.seconds)}")


def _about(one: CalibratedSystem) -> list[str]:
    known = one.known
    lines = [
        f"{one.about}; in {one.unit}, by {one.protocol}, {one.trials} trials",
        f"known: {known.formula} ({known.source}; {known.standing})",
    ]
    if known.limit is not None:
        lines.append(
            f"quoted: {known.limit_formula} = {known.limit:.4g} ({known.limit_source}; {known.limit_standing})"
        )
    lines += [f"± {part.amount:.3g}: {part.reason}" for part in one.allowances]
    return lines if one.reason is None else [*lines, f"off: {one.reason}"]
