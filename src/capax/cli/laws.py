"""`capax fit` and `capax predict`: measurements to a law, and a law to a number."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

if TYPE_CHECKING:
    from capax.laws.compare import Comparison
    from capax.laws.report import FitReport
    from capax.planning.associations import AssociationPrediction
    from capax.planning.predict import Prediction
    from capax.planning.relations import RelationPrediction

Flag = Parameter(negative="")
LawNames = Literal["ecm", "polynomial", "bits", "power", "depth", "association", "relation"]


def fit(
    *,
    store: Path = Path("capax.db"),
    data: Annotated[tuple[Path, ...], Parameter(negative="")] = (),
    where: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    law: LawNames = "ecm",
    method: Literal["joint", "stages"] | None = None,
    as_printed: Annotated[bool, Flag] = False,
    degree: int | None = None,
    target: str | None = None,
    level: float = 0.95,
    compare: Annotated[bool, Flag] = False,
    picture: Path | None = None,
    out: Path | None = None,
    as_json: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """Fit a law of capacity to measurements: parameters with intervals, and how well laws say what was left out.

    Parameters
    ----------
    store
        SQLite file of finished runs.
    data
        A .csv or .parquet table instead (columns seq_len, n_heads, d_model, library_size, memorized, ...), or
        reference, the study that ships with capax; may be given more than once.
    where
        Only rows with column=value; may be given more than once.
    law
        ecm: Härmä et al. 2024; polynomial: its rival there; bits: constant bits per parameter; power: powers of length,
        heads and width; depth: the same with layers.
    method
        Of the ecm: all parameters at once, or the paper's stages. [default: joint]
    as_printed
        The ecm with max for min, as the paper prints it.
    degree
        Of the polynomial. [default: 5]
    target
        Column of counts. [default: memorized_above_chance, or memorized where a file has no such column; of the
        relation law total_key_dim]
    level
        Of the intervals.
    compare
        Set all laws side by side (that of depth where there is more than one).
    picture
        With --compare: where to draw predicted against measured (PNG or PDF).
    out
        Where to write the law (JSON), for predict and plan.
    as_json
        Print one JSON object (docs/schemas/fit.json).
    """
    from capax import outputs, tables
    from capax.errors import LawError, TableError, printable
    from capax.laws.compare import compare as compare_laws
    from capax.laws.files import LAWS, save_law
    from capax.laws.report import report
    from capax.laws.rows import saying

    if picture is not None and not compare:
        raise LawError("picture: only with --compare")
    if picture is not None:
        from capax.reports.drawing import check_writable

        check_writable(picture)
    if out is not None:
        outputs.check(out)
    if not 0 < level < 1:
        raise LawError(f"level: between 0 and 1, got {level}")
    rows = tables.from_files(data) if data else tables.read(store)
    if rows.is_empty():
        raise TableError(f"store: {store} holds no runs")
    rows, modules = tables.without_modules(tables.where(rows, where))
    usual = "memorized_above_chance" if "memorized_above_chance" in rows.columns else "memorized"
    counted = target or ("total_key_dim" if LAWS[law].needed_for else usual)
    rows, luck = tables.above_luck(rows, counted)
    rows, left_out = (rows, 0) if data else tables.above_zero(rows, counted)
    options: dict[str, dict[str, Any]] = {name: {"target": counted} for name in LAWS}
    options["ecm"] |= {"method": method or "joint", "as_printed": as_printed}
    options["polynomial"] |= {"degree": 5 if degree is None else degree}
    if "loss" in rows.columns:
        options["bits"] |= {"loss": rows["loss"][0]}
    for name, given in (("ecm", method or as_printed), ("polynomial", degree)):
        if given and law != name and not compare:
            raise LawError(f"{'degree' if name == 'polynomial' else 'method, as_printed'}: only for {name}, not {law}")
    notes = [*luck, *modules]
    if left_out:
        why = "that found no D_K" if counted == "total_key_dim" else "that were not above chance"
        notes.append(f"{left_out} runs {why} were left out")
    with saying(notes):
        fitted = LAWS[law](**options[law]).fit(rows)
    fitted.notes_.extend(notes)
    one_depth = "n_layers" not in rows.columns or rows["n_layers"].n_unique() == 1
    rivals = [name for name, kind in LAWS.items() if kind.items == fitted.items]
    laws = [LAWS[name](**options[name]) for name in rivals if name != "depth" or not one_depth]
    found = report(fitted, level, compare_laws(rows, laws) if compare else None)
    if picture is not None and found.comparison is not None:
        from capax.reports.drawing import draw
        from capax.reports.harma_laws import compared

        draw(compared(found.comparison), picture, "picture")
    if out is not None:
        save_law(fitted, out)
    if as_json:
        print(found.model_dump_json())
        return
    _show_fit(found)
    for what, path in (("Law", out), ("Picture", picture)):
        if path is not None:
            print(f"{what}: {printable(path)}")


predict = App(name="predict", help="Ask a law how much an architecture memorizes.")


@predict.default
@predict.command(name="sequences")
def predict_sequences(
    *,
    n_heads: int,
    d_model: int,
    seq_len: int,
    vocab_size: int | None = None,
    n_layers: int | None = None,
    d_head: int | None = None,
    law: str = "reference",
    level: float = 0.95,
    extrapolate: Annotated[bool, Flag] = False,
    as_json: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """How many sequences an architecture memorizes, with the interval of a new measurement.

    Parameters
    ----------
    n_heads
        Attention heads per block.
    d_model
        Width.
    seq_len
        Tokens in a sequence.
    vocab_size
        Different tokens. [default: the law's]
    n_layers
        Blocks. [default: the law's]
    d_head
        Channels of a query and a key. [default: the law's]
    law
        A file of `capax fit --out`; reference (reference:ecm, reference:bits), fitted to the study that ships with
        capax; or published:harma2024.
    level
        Of the interval.
    extrapolate
        Answer outside the domain of the law, too.
    as_json
        Print one JSON object (docs/schemas/prediction.json).
    """
    from capax.laws.files import load_law
    from capax.planning.candidates import model
    from capax.planning.predict import predict as ask

    found = load_law(law)
    answer = ask(
        found,
        model(found, n_layers, n_heads, d_model, d_head),
        seq_len,
        vocab_size,
        level=level,
        extrapolate=extrapolate,
    )
    if as_json:
        print(answer.model_dump_json())
    else:
        _show_prediction(answer)


@predict.command(name="associations")
def predict_associations(
    *,
    n_heads: int,
    context_size: int,
    d_model: int,
    d_head: int,
    law: str = "reference:association",
    level: float = 0.95,
    extrapolate: Annotated[bool, Flag] = False,
    as_json: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """How many associations an attention layer memorizes, with the interval of a new measurement.

    Parameters
    ----------
    n_heads
        Attention heads.
    context_size
        Tokens in a context.
    d_model
        Channels of a query and of a token.
    d_head
        Channels of a projected query and of a key.
    law
        A file of `capax fit --law association --out`, or reference:association, fitted to the study that ships with
        capax.
    level
        Of the interval.
    extrapolate
        Answer outside the domain of the law, too.
    as_json
        Print one JSON object (docs/schemas/prediction_associations.json).
    """
    from capax.laws.files import load_law
    from capax.planning.associations import predict_associations as ask

    found = ask(
        load_law(law),
        context_size,
        n_heads=n_heads,
        d_model=d_model,
        d_head=d_head,
        level=level,
        extrapolate=extrapolate,
    )
    if as_json:
        print(found.model_dump_json())
        return
    heads = f"{n_heads} head{'s' * (n_heads > 1)} of {d_head}, width {d_model}"
    _show_answer(f"{heads}; contexts of {context_size} tokens", "associations", found)


@predict.command(name="relations")
def predict_relations(
    *,
    n_edges: int,
    d_model: int,
    n_items: int | None = None,
    law: str = "reference:relation",
    level: float = 0.95,
    extrapolate: bool = True,
    as_json: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """The total key dimension at which a key-query channel recognizes so many relations, and how to cut it into heads.

    Parameters
    ----------
    n_edges
        Relations.
    d_model
        Channels of an item's vector.
    n_items
        Items; as many as relations when not given (a permutation). The law does not depend on them.
    law
        A file of `capax fit --law relation --out`, or reference:relation, fitted to the study that ships with capax.
    level
        Of the interval.
    extrapolate
        Answer outside the domain of the law, too, and say so: a scaling law is asked about more relations than can be
        searched through.
    as_json
        Print one JSON object (docs/schemas/prediction_relations.json).
    """
    from capax.laws.files import load_law
    from capax.planning.relations import predict_relations as ask

    found = ask(load_law(law), n_edges, d_model, n_items, level=level, extrapolate=extrapolate)
    if as_json:
        print(found.model_dump_json())
    else:
        _show_key_dim(found)


def _show_key_dim(found: RelationPrediction) -> None:
    from capax.cli.output import console

    screen, interval = console(), found.interval
    screen.print(f"{found.n_edges} relations of {found.n_items} items in {found.d_model} channels")
    screen.print(
        f"need a total key dimension of about {found.value:.3g}; a new measurement falls between {interval.low:.3g} "
        f"and {interval.high:.3g} with probability {interval.level:.0%}"
    )
    screen.print(f"heads: about {found.n_heads} of {found.d_head} ({found.rule})")
    _show_source(found)


def _show_fit(found: FitReport) -> None:
    from rich.table import Table

    from capax.cli.output import console

    screen = console()
    rows = f"{found.n_rows} rows, of which {found.n_complete} complete" if found.n_complete else f"{found.n_rows} rows"
    scale = "counts" if found.law == "polynomial" else "log counts"
    screen.print(f"{found.law}: {rows}; mean error {found.mape:.1%} in sample, spread of {scale} {found.sigma:.3g}")
    if len(found.parameters) <= 8:
        table = Table(box=None, pad_edge=False)
        table.add_column("parameter")
        table.add_column("value", justify="right")
        table.add_column(f"{found.level:.0%} interval")
        for parameter in found.parameters:
            if parameter.value is None:
                table.add_row(parameter.name, "–", f"not determined: {parameter.reason}")
            else:
                table.add_row(parameter.name, f"{parameter.value:.4g}", _ends(parameter.low, parameter.high))
        screen.print(table)
    else:
        screen.print(f"{len(found.parameters)} coefficients (--json shows them)")
    screen.print(f"domain: {found.domain.in_words()}")
    for note in found.notes:
        screen.print(f"note: {note}")
    if found.comparison is not None:
        _show_comparison(found.comparison)


def _ends(low: float | None, high: float | None) -> str:
    if low is None and high is None:
        return "no limit on either side"
    if low is None:
        return f"below {high:.4g}"
    return f"above {low:.4g}" if high is None else f"{low:.4g} to {high:.4g}"


def _show_comparison(found: Comparison) -> None:
    from rich.table import Table

    from capax.cli.output import console

    screen = console()
    table = Table(box=None, pad_edge=False, title="\nMean error of each law", title_justify="left")
    table.add_column("law")
    left_out = (f"width {found.largest_width:g}", f"{found.largest_heads:g} head{'s' * (found.largest_heads != 1)}")
    for name in ("parameters", "in sample", "left out", *left_out, "AIC", "BIC"):
        table.add_column(name, justify="right", no_wrap=True)
    for score in found.scores:
        errors = (score.mape, score.mape_left_out, score.mape_largest, score.mape_heads)
        table.add_row(
            score.law,
            "–" if score.n_parameters is None else str(score.n_parameters),
            *("–" if error is None else f"{error:.1%}" for error in errors),
            *("–" if value is None else f"{value:.1f}" for value in (score.aic, score.bic)),
        )
    screen.print(table)
    screen.print("left out: a fifth of the configurations at a time; the next two: the largest width, the most heads")
    for score in found.scores:
        for reason in score.reasons:
            screen.print(f"– for {score.law}: {reason}")


def _show_prediction(answer: Prediction) -> None:
    heads = f"{answer.n_heads} head{'s' * (answer.n_heads > 1)} of {answer.d_head}"
    vocabulary = "" if answer.vocab_size is None else f" from {answer.vocab_size}"
    layers = f"{answer.n_layers} layer{'s' * (answer.n_layers > 1)}"
    _show_answer(f"{layers}, {heads}, width {answer.d_model}; {answer.seq_len} tokens{vocabulary}", "sequences", answer)


def _show_answer(setting: str, items: str, answer: Prediction | AssociationPrediction) -> None:
    from capax.cli.output import console

    screen = console()
    interval = answer.interval
    screen.print(setting)
    screen.print(
        f"memorizes about {answer.value:.4g} {items}; a new measurement falls between {interval.low:.4g} and "
        f"{interval.high:.4g} with probability {interval.level:.0%}"
    )
    _show_source(answer)


def _show_source(answer: Prediction | AssociationPrediction | RelationPrediction) -> None:
    from capax.cli.output import console

    screen = console()
    screen.print(f"law: {answer.law} ({answer.source})")
    if answer.inside_domain:
        screen.print(f"inside its domain: {answer.domain.in_words()}")
    else:
        screen.print(f"OUTSIDE its domain: {'; '.join(answer.outside)}")
    for note in answer.notes:
        screen.print(f"note: {note}")
