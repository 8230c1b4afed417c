"""submitit's jobs keep the executors' contract, by its own local executor: all that runs on Slurm but sbatch."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import capax
from capax.errors import CapaxError, SpecError
from capax.sweeps.batch import SubmititJobs
from capax.sweeps.cluster import ClusterError
from capax.sweeps.executors import Executor, Job
from capax.testing import ExecutorSuite
from capax.testing.executors import all_reports, endless, small

pytest.importorskip("submitit")


def wait_for(condition: Any, what: str) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


@pytest.mark.very_slow
class TestSubmititJobs(ExecutorSuite):
    @pytest.fixture
    def executor(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Executor]:
        folder = tmp_path_factory.mktemp("submitit") / "jobs"
        with SubmititJobs(folder, "local", slots=2) as executor:
            yield executor
        assert not folder.exists(), "nothing failed, so that nothing is left"

    @pytest.mark.parametrize(("number", "said"), [(signal.SIGUSR2, "time"), (signal.SIGKILL, "died")])
    def test_a_job_that_is_preempted_or_killed_died(self, tmp_path: Path, number: signal.Signals, said: str) -> None:
        """The scheduler's signals go to the job's process, which is the child of the one that submitit starts."""
        with SubmititJobs(tmp_path / "jobs", "local", slots=2) as executor:
            executor.submit(Job((endless(),), checkpoints=tmp_path / "checkpoints"))
            wait_for(lambda: list(tmp_path.rglob("*.safetensors")), "it writes no checkpoint")
            (controller,) = (int(handle.job_id) for handle in executor._running)
            (process,) = Path(f"/proc/{controller}/task/{controller}/children").read_text().split()
            os.kill(int(process), number)
            (report,) = all_reports(executor, 1)
            assert report.trouble == ("timeout" if said == "time" else "died")
            assert said in report.message
        assert (tmp_path / "jobs").exists() == (number == signal.SIGKILL), "only the log of a lost job is kept"


DRIVER = """
import sys
import capax
from capax.sweeps.batch import SubmititJobs
from capax.testing.executors import small
if __name__ == "__main__":
    with SubmititJobs("jobs", "local", slots=2) as executor:
        runs = [small(0, epochs=int(sys.argv[1]), library_size=60 + step) for step in range(3)]
        for run in capax.sweep(runs, "s.db", executor=executor, device="cpu"):
            print(run.key, flush=True)
"""


@pytest.mark.very_slow
def test_a_sweep_whose_driver_is_killed_goes_on_where_its_jobs_are(tmp_path: Path) -> None:
    """The jobs of the first driver live on until the second begins, whose jobs wait for theirs."""
    (tmp_path / "driver.py").write_text(DRIVER)
    command = [sys.executable, "driver.py", "400"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL) as first:
        wait_for(lambda: list(tmp_path.glob("s.db-checkpoints/*/*.safetensors")), "it writes no checkpoint")
        first.kill()
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=400, check=True)
    runs = [small(0, epochs=400, library_size=60 + step) for step in range(3)]
    alone = {run.key: run for run in capax.sweep(runs, tmp_path / "alone.db", workers=1, device="cpu")}
    assert sorted(done.stdout.split()) == sorted(alone)
    with capax.Store(tmp_path / "s.db", create=False) as store:
        found = {run.key: run for run in store.runs()}
    calm = {key: run.model_copy(update={"seconds": 0.0}) for key, run in alone.items()}
    assert {key: run.model_copy(update={"seconds": 0.0}) for key, run in found.items()} == calm
    assert not (tmp_path / "s.db-checkpoints").exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"cluster": "nowhere"}, "submitit: slurm or local, got 'nowhere'"),
        ({"cluster": "local", "slots": 0}, "workers: at least 1, got 0"),
        ({"cluster": "local", "parameters": {"timeout_min": "soon"}}, "submitit: .*timeout_min"),
        ({"cluster": "local", "parameters": {"slurm_pony": 3}}, "submitit: .*pony"),
        ({"cluster": "local", "parameters": {"tasks_per_node": 3}}, "submitit: .*one process.*tasks_per_node"),
        ({"cluster": "local", "parameters": {"pony": 3}}, "submitit: .*pony"),
    ],
)
def test_what_cannot_be_is_refused_and_leaves_nothing(tmp_path: Path, given: dict[str, Any], said: str) -> None:
    with pytest.raises(CapaxError, match=f"^{said}") as refused:
        SubmititJobs(tmp_path / "jobs", **given)
    assert isinstance(refused.value, ClusterError | SpecError)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(shutil.which("srun") is not None, reason="there is a Slurm here")
def test_where_there_is_no_slurm_it_is_said(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"^submitit: .*srun"):
        SubmititJobs(tmp_path / "jobs", "slurm")
    assert list(tmp_path.iterdir()) == []
