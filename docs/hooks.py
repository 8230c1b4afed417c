"""What the site has beside the pages: the reference, made from the package, and the files that pages link to."""

from __future__ import annotations

import ast
import pkgutil
import posixpath
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import capax

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
BESIDE = (
    "CHANGELOG.md",
    "examples/*.*",
    "examples/configs/*.json",
    "examples/facts/*.*",
    "examples/plugins/*.py",
    "benchmarks/records/*",
    "src/capax/papers/*/studies/*",
)
"""Files outside docs/ that are part of the site, for the pages that link to them."""

LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)([^)#\s]+)")
COMMANDS = "capax.cli"
"""What the command line is made of. Its page is made of what `--help` says."""


def homes() -> dict[str, str]:
    """Where each public name is defined, as `package.module.name`."""
    return {name: f"{_definer(home, name)}.{name}" for name, home in capax._HOMES.items()}


def chapters() -> dict[str, list[str]]:
    """Every module that defines something public, by the package or module of capax that it belongs to."""
    modules: dict[str, list[str]] = {}
    for found in pkgutil.walk_packages(capax.__path__, "capax."):
        chapter = ".".join(found.name.split(".")[:2])
        if not found.ispkg and chapter != COMMANDS and any(not name.startswith("_") for name in _defined(found.name)):
            modules.setdefault(chapter, []).append(found.name)
    return modules


@cache
def _source(module: str) -> ast.Module:
    """A module as it is written; importing it would take torch, and Ray for some."""
    path = ROOT / "src" / module.replace(".", "/")
    return ast.parse((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text(encoding="utf-8"))


def _defined(module: str) -> dict[str, ast.ClassDef | ast.FunctionDef]:
    return {part.name: part for part in _source(module).body if isinstance(part, ast.ClassDef | ast.FunctionDef)}


def _definer(module: str, name: str) -> str:
    """The module that defines what may be imported from this one."""
    if name in _defined(module):
        return module
    imports = (part for part in _source(module).body if isinstance(part, ast.ImportFrom))
    (home,) = (part.module for part in imports if any((found.asname or found.name) == name for found in part.names))
    return _definer(str(home), name)


def reference() -> dict[str, str]:
    """The pages of the reference in Markdown, by their path."""
    modules = chapters()
    rows = [f"| [`capax.{name}`][{home}] | {_said_of(home)} |" for name, home in sorted(homes().items())]
    of_capax = [
        "# Reference",
        "",
        _first_line(_source("capax")),
        "",
        "| name | what it is |",
        "| --- | --- |",
        *rows,
        "",
    ]
    of_capax += ["", "## All modules", "", "| module | what it is |", "| --- | --- |"]
    pages = {}
    for chapter, names in modules.items():
        of_capax += [f"| [`{name}`]({_file(chapter)}#{name}) | {_first_line(_source(name))} |" for name in names]
        title = f"# {chapter}\n\n{_first_line(_source(chapter))}\n"
        pages[f"reference/{_file(chapter)}"] = "\n".join([title, *(f"::: {name}\n" for name in names)])
    return {"reference/index.md": "\n".join(of_capax) + "\n"} | pages


def commands() -> str:
    """Every command of capax with its flags, as `--help` describes them, in Markdown."""
    from capax.cli import command_line

    described: str = command_line().generate_docs(output_format="markdown")
    contents = re.compile(r"^## Table of Contents$.*?(?=^\*\*)", re.MULTILINE | re.DOTALL)
    return contents.sub("", described.replace("# capax\n", "# Commands\n", 1))


def _file(chapter: str) -> str:
    return f"{chapter.removeprefix('capax.')}.md"


def _said_of(home: str) -> str:
    module, _, name = home.rpartition(".")
    return _first_line(_defined(module)[name])


def _first_line(part: ast.Module | ast.ClassDef | ast.FunctionDef) -> str:
    return (ast.get_docstring(part) or "").split("\n")[0].replace("|", "\\|")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages of the reference into the navigation, at its end."""
    assert config.nav is not None
    pages = reference()
    first = [{"Overview": "reference/index.md"}, {"Commands": "reference/commands.md"}]
    config.nav[-1] = {"Reference": [*first, *(_entry(path) for path in list(pages)[1:])]}
    return config


def _entry(path: str) -> dict[str, str]:
    return {f"capax.{Path(path).stem}": path}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the reference and the files beside docs/."""
    from mkdocs.structure.files import File

    for path, text in {**reference(), "reference/commands.md": commands()}.items():
        files.append(File.generated(config, path, content=text))
    for pattern in BESIDE:
        for source in sorted(ROOT.glob(pattern)):
            path = source.relative_to(ROOT).as_posix()
            files.append(File.generated(config, path, abs_src_path=str(source)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links lead to where files lie in the site, not in the repository."""
    source = page.file.abs_src_path
    return markdown if source is None else moved(markdown, Path(source), page.file.src_uri)


def moved(markdown: str, source: Path, path: str) -> str:
    """Links of a file of the repository as they are from its place in the site."""

    def one(match: re.Match[str]) -> str:
        target = (source.parent / match[1]).resolve()
        home = DOCS if target.is_relative_to(DOCS) else ROOT
        if not target.is_relative_to(home):
            return match[1]
        return posixpath.relpath(target.relative_to(home).as_posix(), posixpath.dirname(path) or ".")

    return LINK.sub(one, markdown)
