"""`capax sweep`: from a study file to a full store, with good and bad input."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import capax
from capax.cli import main
from capax.cli.sweep import _in_words, _law
from capax.errors import StoreError
from capax.store.lock import SweepProgress

STUDY = """
[task]
library_size = 60
seq_len = 4
vocab_size = 10
[training]
max_epochs = 4
[protocol]
restarts = 2
[grid]
d_model = [8, 12, 16]
n_heads = [1, 2]
"""


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("study.toml").write_text(STUDY)


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[str, str]:
    with pytest.raises(SystemExit) as exit_:
        main(["sweep", *arguments, "--workers", "1"])
    out, err = capsys.readouterr()
    assert exit_.value.code == code, err
    return out, err


@pytest.mark.slow
def test_a_sweep_from_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = run(capsys, "study.toml", "--dry-run")
    assert out.startswith("6 runs, 0 in study.db; ")
    assert not Path("study.db").exists()
    seen = json.loads(run(capsys, "study.toml", "--dry-run", "--json")[0])
    assert (seen["runs"], seen["stored"], seen["jobs"]) == (6, 0, 6)
    assert seen["seconds"] > 0
    assert seen["bytes"] > 10**8
    out, err = run(capsys, "study.toml")
    assert out.startswith("6 runs done, ")
    assert "6 of 6" in err  # no terminal: a line in the log
    again = json.loads(run(capsys, "study.toml", "--json")[0])
    assert (again["stored"], again["done"], again["failed"]) == (6, 0, 0)
    assert len(capax.read("study.db")) == 6


def test_shards_from_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = run(capsys, "study.toml", "--shard", "4/4", "--dry-run")
    assert out.startswith("shard 4/4 of 6 runs: 2 runs, 0 in study-4-of-4.db; ")
    seen = json.loads(run(capsys, "study.toml", "--shard", "1/4", "--dry-run", "--json")[0])
    assert (seen["shard"], seen["study_runs"], seen["runs"]) == ("1/4", 6, 1)
    out, _ = run(capsys, "study.toml", "--shard", "1/4")
    assert out.startswith("1 run done, ")
    assert out.count("study-1-of-4.db") == 1
    out, _ = run(capsys, "study.toml", "--shard", "3/4", "--store", "mine.db", "--quiet")
    assert len(capax.read("mine.db")) == 2


@pytest.mark.slow
def test_an_adaptive_sweep(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = run(capsys, "study.toml", "--adapt", "power", "--budget", "1e-9", "--json")
    found = json.loads(out)
    assert found["done"] == 0
    assert "no run was begun: 6 runs left, none of which fits --budget 1e-09 and tells more of the law" in err
    found = json.loads(run(capsys, "study.toml", "--adapt", "power", "--budget", "60", "--json")[0])
    assert 0 < found["done"] <= found["runs"] == 6
    assert len(capax.read("study.db")) == found["done"]
    said = found["law"]
    assert said["target"] == {"seq_len": 4, "n_heads": 2, "d_model": 16}
    assert (said["law"], said["measurements"], said["counts"]) == ("power", found["done"], "sequences")
    again = json.loads(run(capsys, "study.toml", "--adapt", "power", "--budget", "1e-9", "--json")[0])
    assert (again["stored"], again["done"], again["law"]) == (found["done"], 0, said)
    out, _ = run(capsys, "study.toml", "--adapt", "power", "--budget", "1e-9", "--target", "d_model=32")
    assert re.fullmatch(
        rf"0 runs done, {found['done']} were there, 0 failed; study.db \(\d+ s\)\nlaw power, {found['done']} "
        r"measurements: .*\nat the target(, outside its domain)?: seq_len 4, n_heads 2, d_model 32\n",
        out,
    )


def test_a_log_names_no_total_that_nobody_knows() -> None:
    assert _in_words(SweepProgress(None, 4, 10, 2, 0, 7)) == "14 runs done · 2 running · 0 failed · 7 items recalled"
    assert _in_words(SweepProgress(20, 4, 10, 2, 0, 7)).startswith("14 of 20 runs done · ")


def test_runs_that_fail_are_told_and_end_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    Path("study.toml").write_text(
        STUDY.replace("[8, 12, 16]", "[200000]").replace("[grid]", "[model]\nd_head = 200000\n[grid]")
    )
    _, err = run(capsys, "study.toml", "--retries", "0", "--fail-fast", code=1)
    assert err.splitlines()[-1].startswith("capax: run ")
    _, err = run(capsys, "study.toml", "--retries", "0", "--quiet", code=1)
    assert "2 runs failed: " in err
    assert "--failed --store study.db" in err
    _, err = run(capsys, "study.toml", "--retries", "0", "--quiet", "--shard", "1/2", code=1)
    assert "capax: 1 run failed: " in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("none.toml",), ["study", "none.toml"]),
        (("study.toml", "--retries", "-1"), ["retries", "-1"]),
        (("study.toml", "--adapt", "power"), ["adapt", "--budget"]),
        (("study.toml", "--budget", "3"), ["--adapt"]),
        (("study.toml", "--target", "n_heads=2", "--dry-run"), ["--adapt"]),
        (("study.toml", "--adapt", "power", "--budget", "3", "--dry-run"), ["dry_run", "--adapt power"]),
        (("study.toml", "--ray", "local", "--dry-run"), ["dry_run", "--ray local"]),
        (("study.toml", "--submitit", "local", "--dry-run"), ["dry_run", "--submitit local"]),
        (("study.toml", "--adapt", "power", "--budget", "-3"), ["budget", "-3"]),
        (("study.toml", "--adapt", "power", "--budget", "3", "--target", "n_heads:2"), ["target", "n_heads:2"]),
        (
            ("study.toml", "--adapt", "power", "--budget", "3", "--target", "n_heads=two"),
            ["target: n_heads: should be an integer", "two"],
        ),
        (
            ("study.toml", "--adapt", "power", "--budget", "3", "--target", "d_model=8.5"),
            ["target: d_model: should be an integer", "8.5"],
        ),
        (
            ("study.toml", "--adapt", "capacity", "--budget", "3"),
            ["law: capacity is fitted to capacity_bits, which protocol capacity measures", "of mac"],
        ),
        (
            ("study.toml", "--adapt", "power", "--budget", "3", "--target", "seq_len=4,seq_len=5"),
            ["target: seq_len once", "seq_len=4,seq_len=5"],
        ),
        (
            ("study.toml", "--adapt", "power", "--budget", "3", "--target", "d_model=-5"),
            ["target: a positive number", "-5"],
        ),
        (
            ("study.toml", "--adapt", "association", "--budget", "3"),
            ["law: association is of associations", "context_size"],
        ),
        (
            ("study.toml", "--adapt", "power", "--budget", "3", "--target", "seq_len=4,n_heads=1,d_model=8,foo=3"),
            ["target: allowed are seq_len, n_heads, d_model and other fields of the study", "got 'foo' = 3"],
        ),
        (
            ("study.toml", "--adapt", "power", "--budget", "3", "--target", "lr=0.1"),
            ["target: allowed are seq_len, n_heads, d_model and other fields of the study", "got 'lr' = 0.1"],
        ),
        (("study.toml", "--adapt", "magic", "--budget", "3"), ["magic"]),
        (("study.toml", "--ray", "nowhere"), ["ray", "nowhere"]),
        (("study.toml", "--ray", "localhost:1"), ["ray", "localhost:1"]),
        (
            ("study.toml", "--ray", "local", "--device", "cuda", "--gpus-per-run", "0"),
            ["gpus_per_run", "0.0"],
        ),
        (("study.toml", "--ray", "local", "--device", "cuda", "--gpus-per-run", "3.5"), ["gpus_per_run", "3.5"]),
        (("study.toml", "--gpus-per-run", "0.25"), ["gpus_per_run", "--ray", "0.25"]),
        (("study.toml", "--device", "pony"), ["device", "'mps'", "pony"]),
        (("study.toml", "--store", "none/s.db"), ["store", "none"]),
        (("study.toml", "--shard", "0/4"), ["shard", "0/4"]),
        (("study.toml", "--shard", "5/4"), ["shard", "5/4"]),
        (("study.toml", "--shard", "a/b"), ["shard", "a/b"]),
        (("study.toml", "--shard", "3"), ["shard", "3/16", "'3'"]),
        (("study.toml", "--shard", "1/1000000"), ["shard", "at most 6", "1/1000000"]),
        (("study.toml", "--shard", "1/1000000", "--dry-run"), ["shard", "at most 6", "1/1000000"]),
        (("study.toml", "--shard", "1/2", "--ray", "local"), ["shard", "--ray"]),
        (("study.toml", "--shard", "1/2", "--submitit", "local"), ["shard", "--submitit"]),
        (("study.toml", "--ray", "local", "--submitit", "local"), ["ray", "--submitit"]),
        (("study.toml", "--submitit", "nowhere"), ["submitit", "slurm or local", "nowhere"]),
        (("study.toml", "--submitit-parameters", "a=b"), ["submitit_parameters", "--submitit"]),
        (
            ("study.toml", "--submitit", "local", "--submitit-parameters", "4"),
            ["submitit_parameters", "name=value", "4"],
        ),
        (("study.toml", "--shard", "1/2", "--adapt", "power", "--budget", "3"), ["shard", "--adapt"]),
        (("study.toml", "--store", "study.toml"), ["study.toml"]),
    ],
)
def test_bad_input(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: list[str]) -> None:
    out, err = run(capsys, *arguments, code=2)
    assert out == ""
    assert err.count("\n") == 1
    for part in said:
        assert part in err
    assert capax.read("study.db").is_empty() if Path("study.db").exists() else True


DRIVER = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from capax.cli import main
if __name__ == "__main__":
    main(["sweep", "study.toml", "--workers", "2"])
"""


def _stored() -> int:
    """Runs in the store; none while it is being made."""
    try:
        return len(capax.read("study.db"))
    except StoreError:
        return 0


def _interrupted(times: int) -> tuple[int, str]:
    """A sweep of a short and two long runs, interrupted once or twice when the first is done: exit code and stderr."""
    long = STUDY.replace("max_epochs = 4", "max_epochs = 1500\npatience = 1500").replace("[1, 2]", "[1]")
    Path("study.toml").write_text(long + "[[change]]\nif = { d_model = 8 }\nset = { max_epochs = 20 }\n")
    Path("driver.py").write_text(DRIVER)
    with subprocess.Popen([sys.executable, "driver.py"], stderr=subprocess.PIPE, text=True) as driver:
        while driver.poll() is None and _stored() == 0:
            time.sleep(0.05)
        for _ in range(times):
            os.kill(driver.pid, signal.SIGINT)
            time.sleep(0.05)
        _, err = driver.communicate(timeout=120)
    return driver.returncode, err


@pytest.mark.very_slow  # `measure` stops in the same way, and its test is fast
@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_keeps_what_is_done_and_the_sweep_goes_on(capsys: pytest.CaptureFixture[str], times: int) -> None:
    """One interrupt: runs in flight leave checkpoints; two: they are ended. Code 130; then the rest is done."""
    code, err = _interrupted(times)
    assert code == 130, err
    assert err.splitlines()[-1] == "capax: interrupted; finished runs are saved; the same sweep does the others"
    done = capax.read("study.db")["key"].to_list()
    assert 1 <= len(done) < 3
    if times == 1:
        assert list(Path("study.db-checkpoints").rglob("*.safetensors"))
    summary = json.loads(run(capsys, "study.toml", "--json")[0])
    assert (summary["stored"], summary["done"], summary["failed"]) == (len(done), 3 - len(done), 0)


@pytest.mark.very_slow
def test_a_full_disk_ends_the_sweep_and_loses_nothing_finished(capsys: pytest.CaptureFixture[str]) -> None:
    """The store may grow no further: the sweep ends with one line, and goes on when there is room again."""
    task = capax.Sequences(library_size=60, seq_len=4, vocab_size=10)
    for n_heads in (1, 2):
        model = capax.Transformer(d_model=8, n_heads=n_heads)
        capax.measure(task, model, capax.Training(max_epochs=4), restarts=2, store="study.db")
    known = capax.read("study.db")["key"].to_list()
    wider = STUDY.replace("[8, 12, 16]", "[8, 12, 16, 20, 24]")
    Path("study.toml").write_text(wider)
    code = (
        "import resource, signal, os\nfrom pathlib import Path\nfrom capax.cli import main\n"
        "if __name__ == '__main__':\n"
        "    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "    size = Path('study.db').stat().st_size\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))\n"
        "    main(['sweep', 'study.toml', '--workers', '1', '--quiet'])\n"
    )
    Path("full.py").write_text(code)
    ended = subprocess.run([sys.executable, "full.py"], capture_output=True, text=True, check=False, timeout=200)
    assert ended.returncode == 1, ended.stderr
    assert "the run was not saved" in ended.stderr.splitlines()[-1]
    assert set(known) <= set(capax.read("study.db")["key"])
    run(capsys, "study.toml", "--quiet")
    assert len(capax.read("study.db")) == 10


def test_a_law_has_the_fields_of_the_task_alone() -> None:
    """`axes` is no field, but a class attribute: a law that had it would lose its heads and its width."""
    assert _law("power", capax.Sequences()).columns == capax.PowerLaw().columns
    assert _law("bits", capax.Sequences(loss="last")).loss == "last"
