"""For the reference: fields of specs and results are described where they are declared, in `Field(description=...)`."""

from __future__ import annotations

import ast
from typing import Any

from griffe import Attribute, Docstring, Extension


class Fields(Extension):
    """Descriptions of pydantic fields as docstrings; a field without one is shown all the same."""

    def on_attribute_instance(self, *, node: Any, attr: Attribute, **_: Any) -> None:
        """Describe one field."""
        if not isinstance(node, ast.AnnAssign) or attr.docstring or attr.name.startswith("_"):
            return
        if attr.parent is not None and attr.parent.is_class:
            plain, description = split(ast.unparse(node.annotation))
            attr.docstring = Docstring(description, parent=attr)
            if description:
                attr.annotation = plain


def split(annotation: str) -> tuple[str, str]:
    """An annotation without the description of its field, and the description.

    `Annotated[int, Field(ge=1, description="Heads.")]` is `Annotated[int, Field(ge=1)]` and `Heads.`
    """
    tree = ast.parse(annotation, mode="eval").body
    description = ""
    for part in ast.walk(tree):
        if isinstance(part, ast.Call) and ast.unparse(part.func) == "Field":
            described = [ast.literal_eval(word.value) for word in part.keywords if _describes(word)]
            description = "".join([description, *described])
            part.keywords = [word for word in part.keywords if not _describes(word)]
    if isinstance(tree, ast.Subscript) and isinstance(tree.slice, ast.Tuple) and ast.unparse(tree.value) == "Annotated":
        kind, *limits = [part for part in tree.slice.elts if ast.unparse(part) != "Field()"]
        tree.slice.elts = [kind, *limits]
        return ast.unparse(tree if limits else kind), description
    return ast.unparse(tree), description


def _describes(word: ast.keyword) -> bool:
    return word.arg == "description"
