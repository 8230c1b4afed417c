"""`capax check`: of a model, of what a bound assumes, of the heads of a trained layer."""

from cyclopts import App

from capax.cli.flags import made


def _app() -> App:
    """Made anew for each command line: the flags of a model that a plugin brings are not those made before it."""
    app = App(name="check", help="Check a model, vectors, or the heads of a trained layer.")
    app.command(
        "capax.cli.check.model:model",
        name="model",
        help="Look for faults in a model of tokens that spoil a count: a module of yours, or one of ours.\n\nIt ends "
        "with code 0 whatever it finds.",
    )
    app.command(
        "capax.cli.check.assumptions:assumptions",
        name="assumptions",
        help="Check what the memorization bound assumes: on arrays, or block by block on a Hugging Face model.",
    )
    app.command(
        "capax.cli.check.saturation:saturation",
        name="saturation",
        help="Show how the examples that a layer learned split among its heads.\n\nThe layer's weights must have been "
        "kept (`capax measure associations --keep-weights`).",
    )
    return app


__getattr__ = made(app=_app)
