"""The documentation is true: what its pages say to run runs, and prints what they show; links lead somewhere.

The blocks of a page are run in their order, in one folder, so that they may build on one another. A block below
`<!-- not run: REASON -->` is left out.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache, partial, reduce
from operator import getitem
from pathlib import Path
from types import ModuleType

import jaxtyping
import pytest
from cyclopts import App
from pages import DOCS, GENERATED, NOT_RUN, ROOT, Block, all_pages, blocks, commands, far_off, wordless
from rich.console import Console
from versions import pinned

import capax
from capax.cli import command_line, main, output

FAST = ("how-to/add-a-law.md", "how-to/choose-heads.md")
"""Pages whose blocks take a second or two; the others are run by `make test-all`."""

COLUMNS = 80
"""Of the terminal whose output the pages show."""

LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#[^)]*)?\)")


def name(page: Path) -> str:
    return page.relative_to(DOCS).as_posix()


def runnable(page: Path) -> list[Block]:
    return blocks(page.read_text(encoding="utf-8"))


PAGES = [
    pytest.param(page, id=name(page), marks=[] if name(page) in FAST else pytest.mark.very_slow)
    for page in all_pages()
    if runnable(page)
]


class Reader:
    """Somebody who types in what a page says."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.capsys = capsys
        self.variables: dict[str, object] = {"__name__": "page"}
        self.printed = ""
        self.exactly = False

    def does(self, block: Block) -> None:
        """Do one block; what it prints last is `printed`. Commands train, so their numbers are those of a machine."""
        if block.kind == "file":
            (self.folder / block.name).write_text(block.text, encoding="utf-8")
        elif block.kind == "python":
            exec(compile(block.text, f"line {block.line}", "exec"), self.variables)
            self.printed, self.exactly = self.capsys.readouterr().out, True
        elif block.kind == "sh":
            for command in commands(block.text):
                self.printed, self.exactly = self._typed(command), False
        elif self.exactly:
            assert self.printed.split() == block.text.split()
        else:
            assert wordless(self.printed) == wordless(block.text), self.printed
            assert far_off(self.printed, block.text) == [], self.printed

    def _typed(self, command: list[str]) -> str:
        program, *arguments = command
        if program == "capax":
            with pytest.raises(SystemExit) as exit_:
                main(arguments)
            out, err = self.capsys.readouterr()
            assert exit_.value.code == 0, (command, err)
            return out
        assert program == "python", f"not a command that is run here: {command}"
        done = subprocess.run(
            [sys.executable, *arguments], cwd=self.folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (command, done.stderr)
        return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_says_to_run_runs(
    page: Path,
    one_core: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if name(page) == "stores.md" and not pinned("transformers"):
        pytest.skip("it names the key of a model of transformers, which is another for each version")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    console = partial(Console, highlight=False, markup=False, emoji=False, width=COLUMNS)
    monkeypatch.setattr(output, "console", lambda stderr=False: console(stderr=stderr))
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # a reader checks no shapes
    reader = Reader(tmp_path, capsys)
    found = runnable(page)
    try:
        for block in found:
            if block.reason is None:
                try:
                    reader.does(block)
                except BaseException as error:
                    error.add_note(f"{name(page)}, line {block.line}")
                    raise
    finally:
        for block in found:
            sys.modules.pop(block.name.removesuffix(".py"), None)


PAGE = """
Some words, and `capax runs` in a line.

    capax info \\
        --json

<!-- not run: it takes long -->
```sh
capax demo
```

```python
# one.py
two = 2
```

```sh
python -c "
import one
print(one.two)"  # of the file
```

```text
2
```

```json
{}
```
"""


def test_what_is_read_of_a_page() -> None:
    found = blocks(PAGE)
    assert [block.kind for block in found] == ["sh", "sh", "file", "sh", "text"]
    assert [block.reason for block in found] == [None, "it takes long", None, None, None]
    assert list(commands(found[0].text)) == [["capax", "info", "--json"]]
    assert found[2].name == "one.py"
    assert list(commands(found[3].text)) == [["python", "-c", "\nimport one\nprint(one.two)"]]


def test_what_is_untrue_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    reader = Reader(tmp_path, capsys)
    reader.does(Block(1, "python", "print('seven', 3 + 4)"))
    reader.does(Block(2, "text", "seven 7"))
    with pytest.raises(AssertionError):
        reader.does(Block(2, "text", "seven 8"))
    with pytest.raises(AssertionError, match="no_such"):
        reader.does(Block(3, "sh", "capax runs --store no_such.db"))
    with pytest.raises(AssertionError, match="not a command"):
        reader.does(Block(4, "sh", "rm -r /nowhere"))


def test_numbers_that_are_far_from_those_of_a_page_are_seen() -> None:
    assert far_off("k 0.0916 -0.1156 to 1.615; 12 s", "k 0.11 0.0162 to 1.5; 40 s") == [("-0.1156", "0.0162")]
    assert far_off("58 of 100 (2.5%)", "47 of 100 (1.2%)") == [("(2.5%)", "(1.2%)")]


def test_few_blocks_are_not_run() -> None:
    left_out = [block for page in all_pages() for block in runnable(page) if block.reason is not None]
    assert len(left_out) <= 12
    assert all(len(block.reason or "") > 8 for block in left_out)


def test_a_mark_that_is_misspelt_is_seen() -> None:
    for page in all_pages():
        for line in page.read_text(encoding="utf-8").splitlines():
            known = NOT_RUN.match(line) or GENERATED.match(line)
            assert line.startswith("<!--") == bool(known), (name(page), line)


def test_every_page_is_in_the_navigation() -> None:
    entries = re.findall(r"^ +- .*: (\S+\.md)(?: #.*)?$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.M)
    assert {name(page) for page in all_pages()} <= set(entries)


# The commands

ALIKE = {"predict text", "plan text"}
"""Commands that are named on their page, and shown there for another task: no law of theirs ships."""


@pytest.mark.slow
@pytest.mark.usefixtures("only_our_own")
def test_every_command_is_shown_on_the_one_page_of_its_group() -> None:
    index = (DOCS / "commands/index.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[.+?\]\((\S+\.md)\) \| .+ \| (`.+`) \|$", index, re.M)
    assert len({page for page, _ in rows}) == len(rows)
    listed = [(command, page) for page, cell in rows for command in re.findall(r"`(.+?)`", cell)]
    assert sorted(command for command, _ in listed) == sorted(callable_commands())
    for group in {command.partition(" ")[0] for command, _ in listed}:
        assert len({page for command, page in listed if command.partition(" ")[0] == group}) == 1, group
    for command, page in listed:
        path = DOCS / "commands" / page
        if command in ALIKE:
            assert f"`capax {command}`" in path.read_text(encoding="utf-8")
        else:
            assert command in shown_on(path), f"{page} shows no example of {command}"


def callable_commands() -> set[str]:
    """The commands that do something: not groups of others alone."""
    app = command_line()
    return {" ".join(names) for names in every_command(app) if reduce(getitem, names, app).default_command is not None}


@cache
def shown_on(page: Path) -> set[str]:
    """The commands of capax that the blocks of a page are examples of."""
    known, shown = callable_commands(), set()
    for block in runnable(page):
        for program, *words in commands(block.text) if block.kind == "sh" else ():
            names = (" ".join(words[:count]) for count in (2, 1))
            if program == "capax":
                shown.add(next(name for name in names if name in known))
    return shown


# The site


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hooks", DOCS / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_reference_has_every_public_name_and_every_module(hooks: ModuleType) -> None:
    pages = hooks.reference()
    listed = re.findall(r"^\| \[`capax\.(\w+)`\]\[([\w.]+)\] \| \S", pages["reference/index.md"], re.M)
    assert sorted(name for name, _ in listed) == sorted(capax._HOMES)
    described = {module for text in pages.values() for module in re.findall(r"^::: (\S+)$", text, re.M)}
    assert {home.rpartition(".")[0] for _, home in listed} <= described
    packages = {path.parent.name for path in (ROOT / "src/capax").glob("*/__init__.py")} - {"cli"}
    assert {f"reference/{package}.md" for package in packages} - {"reference/reports.md"} <= pages.keys()


@pytest.mark.slow
def test_the_reference_has_every_command(hooks: ModuleType) -> None:
    described = set(re.findall(r"^#+ capax (.+)$", hooks.commands(), re.M))
    defined = {" ".join(names) for names in every_command(command_line())}
    assert described == defined
    assert {"sweep", "measure sequences", "plan associations"} <= described


def every_command(app: App, names: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The commands of an app and of the apps within, by their names."""
    for name in app:
        if not name.startswith("-"):
            yield (*names, name)
            yield from every_command(app[name], (*names, name))


def test_links_lead_somewhere(hooks: ModuleType) -> None:
    """To files of the repository, or pages of the reference; anchors are checked as the site is built."""
    generated = {DOCS / path for path in [*hooks.reference(), "reference/commands.md"]}
    for page in all_pages():
        for link in filter(None, LINK.findall(page.read_text(encoding="utf-8"))):
            target = (page.parent / link).resolve()
            assert target.exists() or target in generated, (name(page), link)


def test_links_out_of_docs_are_moved(hooks: ModuleType) -> None:
    text = "[a](../examples/quick.toml) [b](laws.md#plans) [c](https://example.org/x) [d](schemas/fit.json)"
    from_docs = hooks.moved(text, DOCS / "sweeps.md", "sweeps.md")
    assert from_docs == text.replace("../examples", "examples")
    assert hooks.moved("[e](docs/laws.md)", ROOT / "CHANGELOG.md", "CHANGELOG.md") == "[e](laws.md)"
    deeper = hooks.moved("[f](../../examples/quick.toml)", DOCS / "how-to/x.md", "how-to/x.md")
    assert deeper == "[f](../examples/quick.toml)"


@pytest.mark.very_slow
def test_the_site_builds_without_a_warning(hooks: ModuleType, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path / "site"],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    reference = "".join(page.read_text(encoding="utf-8") for page in (tmp_path / "site/reference").rglob("*.html"))
    for public, home in hooks.homes().items():
        assert f'id="{home}"' in reference, public
    assert "Tokens in a sequence; the last one is the target." in reference
    start = (tmp_path / "site/index.html").read_text(encoding="utf-8")
    assert re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="?(https?:[^">]*)', start) == []
