"""`capax runs memorization`: what a kept model remembers of a text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import capax
from capax.cli import measurement, output
from capax.cli.flags import Flag, Json
from capax.cli.path import search_here
from capax.probes.memorization import Against, Floor, Memorization, Verbatim
from capax.store import DEFAULT
from capax.text import amount


def memorization(
    key: str,
    *,
    reference: str | None = None,
    store: Path = DEFAULT,
    library: Path | None = None,
    trust: Annotated[bool, Flag] = False,
    as_json: Json = False,
) -> None:
    """Say what a kept model remembers of a text: windows verbatim, and bits that a reference does not know.

    Parameters
    ----------
    key
        Key of a run on text that was measured with --keep-weights, or its beginning.
    reference
        The same of a run on the other half of the documents (--half), best on all of its windows; without it a
        compressor alone says how many bits there may be.
    store
        SQLite file that both runs were stored in.
    library
        Where the documents lie now, if they have moved; their content is compared.
    trust
        Of a run of a module: import it, which runs its code, if its source is the one that was measured.
    """
    if trust:
        search_here()
    found = capax.memorization(key, reference, store=store, trust=trust, library=library)
    output.emit(found, _show, as_json=as_json)


def _show(found: Memorization) -> None:
    screen = output.console()
    screen.print(f"{measurement.setting(found.spec)}; run {found.key[:12]}")
    asked = f"the last {found.suffix} tokens after the first {found.prefix}"
    screen.print(f"Said verbatim ({asked}; intervals: {found.level:.0%}):")
    halves: dict[str, Verbatim | None] = {"learned": found.learned, "held out": found.held_out}
    there = {name: half for name, half in halves.items() if half is not None}
    output.show_lines(
        {
            "windows": list(there),
            "of": [str(half.windows) for half in there.values()],
            "recalled": [str(half.recalled) for half in there.values()],
            "rate": [f"{half.rate:.1%}" for half in there.values()],
            "interval": [f"{half.low:.1%} to {half.high:.1%}" for half in there.values()],
            "bits/token": [f"{half.bits_per_token:.3f}" for half in there.values()],
        }
    )
    if found.p_value is not None:
        differ = "differ" if found.significant else "do not differ significantly"
        p_value = f"p = {found.p_value:.2g}" if found.p_value else "p below 1e-300"
        screen.print(f"The rates {differ} (Fisher's exact test: {p_value}).")
    if found.membership is not None:
        screen.print(f"Told apart by code length: {found.membership:.1%} of the windows (a guess: 50%).")
    density = found.information_bits / found.trainable_parameters
    screen.print(
        f"Known against a uniform guess: {amount(found.information_bits, 'bit')}, {density:.3g} a parameter (of "
        f"{found.trainable_parameters}), language included."
    )
    if found.against is not None:
        screen.print(_against(found.against))
    screen.print(_floor(found.floor))
    output.show_notes(found.notes)


def _against(found: Against) -> str:
    both = f" ({found.seen_by_both} that it learned, too, are left out)" if found.seen_by_both else ""
    return (
        f"Unintended memorization (Morris et al. 2025): {amount(found.unintended_bits, 'bit')}, "
        f"{found.bits_per_parameter:.3g} a parameter: {found.windows} windows take "
        f"{amount(found.model_bits, 'bit')} by the model, {amount(found.reference_bits, 'bit')} by run "
        f"{found.key[:12]}, which never saw them{both}."
    )


def _floor(found: Floor) -> str:
    less = found.shorter_by_bits
    than = f"{amount(abs(less), 'bit')} {'less' if less >= 0 else 'more'}"
    meaning = "more than what is memorized" if less >= 0 else "no memorization is shown"
    return (
        f"Against a compressor ({found.compressor}, after {amount(found.held_out_bytes, 'B')} of held-out text), the "
        f"floor of what a reference does: {amount(found.compressed_bits, 'bit')}; the model takes {than}: {meaning}."
    )
