"""`capax check`: of a model, of what a bound assumes, of the heads of a trained layer."""

from cyclopts import App

app = App(name="check", help="Check a model, vectors, or the heads of a trained layer.")
app.command("capax.cli.check.model:model", name="model", help="Look for faults in a model that spoil a count.")
app.command(
    "capax.cli.check.assumptions:assumptions",
    name="assumptions",
    help="Check what the memorization bound assumes of vectors, or of a Hugging Face model's.",
)
app.command(
    "capax.cli.check.saturation:saturation",
    name="saturation",
    help="Show which heads of a trained layer attend to one token alone.",
)
