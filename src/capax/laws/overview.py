"""A fitted law in a few lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from capax.overview import Overview

if TYPE_CHECKING:
    from capax.laws.law import Law


def of_law(law: Law) -> Overview:
    """Its parameters, how far counts are from it, and where it holds; intervals take a while and are not among them."""
    known = {name: value for name, value in law.parameters_.items() if value is not None}
    usual = type(law)().get_params()
    options = ", ".join(f"{name}={value!r}" for name, value in law.get_params().items() if value != usual[name])
    return Overview(
        title=f"{type(law).__name__}({options}): {law.target} from {', '.join(law.columns)}",
        rows={
            "parameters": ", ".join(f"{name} {value:.4g}" for name, value in known.items()),
            "undetermined": ", ".join(law.undetermined_),
            "sigma": f"{law.sigma_:.3g}",
            "fitted to": law.source_,
            "domain": law.domain_.in_words(),
        },
        notes=law.notes_,
    )
