"""The README is true: its commands and its Python run, its output is what comes out."""

import json
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jaxtyping
import pytest
from pages import ROOT, far_off, wordless
from versions import pinned

import capax
from capax.cli import main

README = (ROOT / "README.md").read_text(encoding="utf-8")
SHELL = {"capax demo": "capax demo --quick"}
"""What stands in for a command: the demo in a reduced size."""
INSTALL = "pip install -c constraints.txt ."
FIRST = "--d-head 8 --cycle-tolerance 0.1"
SHORTER = {
    FIRST: "--d-head 4 --vocab-size 16 --seq-len 4 --cycle-steps 10 --cycle-tolerance 0.3",
    "--lr 0.01 --max-trainings 24": "--lr 0.03 --max-trainings 8",
    "--trials 20": "--trials 3 --lr 0.01",
    "--max-steps 1500": "--max-steps 60",
    "--protocol budget": "--protocol budget --max-trainings 8 --max-steps 1000",
}
"""Sizes of commands whose numbers are not shown."""


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


COMMANDS, SHOWN = blocks("sh"), blocks("text")


@pytest.fixture
def readers_folder(one_core: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with the examples, of which the study is shorter, for somebody who checks no shapes."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    study = tmp_path / "examples" / "quick.toml"
    study.write_text(study.read_text().replace("max_epochs = 60", "max_epochs = 20\nlr = 0.01"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.fixture
def said(readers_folder: None, capsys: pytest.CaptureFixture[str]) -> Callable[[str], list[str]]:
    """What the commands of the README's block that holds some words print; they run in this order, in one folder."""

    def one(line: str) -> str:
        for long, short in SHORTER.items():
            line = line.replace(long, short)
        program, *arguments = shlex.split(SHELL.get(line, line))
        assert program == "capax"
        with pytest.raises(SystemExit) as exit_:
            main(arguments)
        out, err = capsys.readouterr()
        assert exit_.value.code == 0, (line, err)
        return out

    def of_block(words: str) -> list[str]:
        (block,) = (block for block in COMMANDS if words in block)
        return [one(line) for line in block.splitlines() if line != INSTALL]

    return of_block


def test_the_command_is_installed() -> None:
    """The others are run in this process, where nothing is imported anew."""
    done = subprocess.run([Path(sys.executable).parent / "capax", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, capax.__version__), done.stderr


def test_the_blocks_of_commands_are_those_tested_here() -> None:
    assert [len(block.splitlines()) for block in COMMANDS] == [2, 1, 4, 2, 3, 2, 3, 3, 3, 3, 4, 2]
    lines = "".join(COMMANDS).splitlines()
    assert [line for line in lines if not line.startswith("capax ")] == [INSTALL]


def test_the_first_command_says_what_a_network_can_hold(said: Callable[[str], list[str]]) -> None:
    (shown,) = said(INSTALL)
    assert re.search(r"^capacity +[\d.]+ bits; [\d.]+ to [\d.]+ \(95%", shown, re.M), shown


@pytest.mark.very_slow
def test_the_first_command_prints_what_the_readme_shows(
    said: Callable[[str], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SHORTER, FIRST, FIRST)
    (printed,) = said(INSTALL)
    here, there = printed.splitlines()[:4], SHOWN[0].splitlines()[:4]
    assert wordless("\n".join(here)) == wordless("\n".join(there))
    assert far_off("\n".join(here), "\n".join(there)) == []


@pytest.mark.slow
def test_the_demo(said: Callable[[str], list[str]]) -> None:
    (shown,) = said("capax demo")
    assert Path("capax-demo.png").is_file()
    head, *networks = shown.partition("\n\n")[0].splitlines()
    assert {"effective", "bits", "bits/eff.", "interval"} <= set(head.split())
    assert len(networks) == 2
    assert "Allen-Zhu and Li 2024" in shown
    assert "Morris et al. 2025" in shown


def test_measure_prints_what_the_readme_shows(said: Callable[[str], list[str]]) -> None:
    first, stored, recalled, probed = said("--loss last --restarts 2 --keep-weights")
    assert wordless(first) == wordless(SHOWN[1])
    assert far_off(first, SHOWN[1]) == []
    assert "memorized 300 of 300" in " ".join(first.split())
    assert "300" in stored
    assert recalled.startswith("74 ")
    assert "the library says the same" in recalled
    assert "300 of 300 items recalled" in probed


@pytest.mark.slow
def test_the_other_protocols_run(said: Callable[[str], list[str]]) -> None:
    largest, shatter = said("--protocol mls")
    assert "largest library" in largest
    assert json.loads(shatter)["shatter"]["epochs"]


def test_the_sweep_runs(said: Callable[[str], list[str]]) -> None:
    swept, seen, fitted = said("capax sweep")
    assert "12 runs done" in swept
    assert "12" in seen
    assert fitted


def test_plans_in_bits_run(said: Callable[[str], list[str]]) -> None:
    held, within = said("capax plan --items 200000")
    assert "200000 sequences" in held
    assert "44.9 Mbit" in held
    assert "OUTSIDE the law's domain" in " ".join(held.split())
    assert "How many sequences" in within


def test_a_file_of_facts_is_planned_learned_and_asked(said: Callable[[str], list[str]]) -> None:
    planned, learned, answer = said("capax plan facts")
    assert "180 facts, 3 relations" in planned
    assert "memorized 180 of 180" in " ".join(learned.split())
    assert answer.startswith("Oslo")


def test_predict_prints_what_the_readme_shows(said: Callable[[str], list[str]]) -> None:
    _, answer, planned = said("capax predict --n-heads")
    assert Path("law.json").is_file()
    assert wordless(answer) == wordless(SHOWN[2])
    assert far_off(answer, SHOWN[2]) == []
    assert "about 231" in answer
    assert planned


def test_attention_alone_prints_what_the_readme_shows(said: Callable[[str], list[str]]) -> None:
    built, trained, planned = said("capax construct associations")
    assert wordless(built) == wordless(SHOWN[3])
    assert far_off(built, SHOWN[3]) == []
    assert "61 of 61 arg-max right" in built
    assert "of 200" in trained
    assert "300 associations" in planned


@pytest.mark.slow
def test_relations_run(said: Callable[[str], list[str]]) -> None:
    built, searched, predicted = said("capax construct relations")
    assert "permutation, 256 items" in built
    assert re.search(r"key dimension +([345]): 1 x \1, reached by training;", searched)
    assert "total_key_dim of about" in predicted


@pytest.mark.slow
def test_looking_closer_runs(said: Callable[[str], list[str]]) -> None:
    table, calibration, moved, page = said("capax bounds")
    assert re.search(r"mahdavi2024 .* 621 ", table)
    assert "2 of 2 hold" in calibration
    assert "loss" in moved
    assert Path("report.html").is_file()
    assert "report.html" in page


def test_the_papers_are_listed_and_judged(said: Callable[[str], list[str]]) -> None:
    listed, judged = said("capax reproduce")
    assert "figure-2-heads" in listed
    assert "3.38 billion" in judged


def test_the_python_runs(readers_folder: None, capsys: pytest.CaptureFixture[str]) -> None:
    measured, fitted = blocks("python")
    assert len(measured.strip().splitlines()) <= 10
    exec(compile(measured, "README.md", "exec"), {})
    out = capsys.readouterr().out
    assert "of 100 by luck 4.0" in out
    assert "agrees=True" in out
    exec(compile(fitted, "README.md", "exec"), {})
    assert "1 32 16864" in capsys.readouterr().out


@pytest.mark.parametrize("link", re.findall(r"\]\((?!http)([^)]+)\)", README))
def test_links_lead_somewhere(link: str) -> None:
    assert (ROOT / link.partition("#")[0]).exists()


@pytest.mark.usefixtures("only_our_own")
@pytest.mark.skipif(not pinned("pydantic"), reason="other versions of pydantic describe other fields")
def test_schemas_are_current() -> None:
    make = runpy.run_path(str(ROOT / "docs/schemas/make.py"))
    for name, text in make["schemas"]().items():
        assert (ROOT / "docs/schemas" / f"{name}.json").read_text(encoding="utf-8") == text
