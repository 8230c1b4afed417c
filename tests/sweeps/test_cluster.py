"""Ray tasks keep the executors' contract, on a real cluster of two nodes; a node that is lost loses its job alone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import capax
from capax.errors import SpecError
from capax.sweeps.cluster import ClusterError, RayTasks, jobs_each
from capax.sweeps.executors import Executor
from capax.testing import ExecutorSuite
from capax.testing.executors import small

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Ray leaves its log files open
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning:ray"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),
]


@pytest.mark.very_slow
class TestRayTasks(ExecutorSuite):
    @pytest.fixture
    def executor(self) -> Iterator[Executor]:
        with RayTasks("local", slots=2) as executor:
            yield executor


SCRIPT = """
import sys
from pathlib import Path

import ray
from ray.cluster_utils import Cluster

import capax
from capax.sweeps.cluster import RayTasks
from capax.testing.executors import small

if __name__ == "__main__":
    store, epochs, lose = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "lose"
    cluster = Cluster(initialize_head=True, head_node_args=dict(num_cpus=1, include_dashboard=False))
    other = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    models = [capax.Transformer(d_model=8 * width, d_head=8) for width in range(1, 7)]
    runs = [small(0, epochs=epochs).replace(model=model) for model in models]
    found = []
    with RayTasks(cluster.address) as executor:
        assert executor.slots == 2, executor.slots
        sweep = capax.sweep(runs, store, executor=executor, device="cpu", retries=3)
        found.append(next(sweep))
        if lose:
            cluster.remove_node(other, allow_graceful=False)
        found += sweep
    cluster.shutdown()
    assert len(found) == 6, len(found)
    print("swept", len({run.key for run in found}))
"""


def swept(tmp_path: Path, epochs: int, *, lose: bool) -> dict[str, capax.Measurement]:
    """A sweep on two nodes in a process of its own; one of them is killed after the first result, or not."""
    script = tmp_path / "cluster.py"
    script.write_text(SCRIPT)
    command = [sys.executable, script, tmp_path / "s.db", str(epochs), "lose" if lose else "keep"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert "swept 6" in done.stdout, done.stdout + done.stderr
    with capax.Store(tmp_path / "s.db", create=False) as store:
        return {run.key: run.model_copy(update={"seconds": 0.0}) for run in store.runs()}


def local(tmp_path: Path, epochs: int) -> dict[str, capax.Measurement]:
    runs = [
        small(0, epochs=epochs).replace(model=capax.Transformer(d_model=8 * width, d_head=8)) for width in range(1, 7)
    ]
    found = capax.sweep(runs, tmp_path / "local.db", workers=1, device="cpu")
    return {run.key: run.model_copy(update={"seconds": 0.0}) for run in found}


@pytest.mark.very_slow
def test_two_nodes_give_the_results_of_local_processes(tmp_path: Path) -> None:
    assert swept(tmp_path, 5, lose=False) == local(tmp_path, 5)


@pytest.mark.very_slow
def test_a_node_that_is_lost_changes_nothing(tmp_path: Path) -> None:
    assert swept(tmp_path, 600, lose=True) == local(tmp_path, 600)


SHARED = """
import sys
import time
from pathlib import Path

from ray.cluster_utils import Cluster

from capax.sweeps.cluster import ClusterError, RayTasks
from capax.sweeps.executors import Job
from capax.testing.executors import endless

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    head = dict(num_cpus=4, num_gpus=1, include_dashboard=False)
    cluster = Cluster(initialize_head=True, head_node_args=head)
    with RayTasks("auto", "auto", gpus_per_run=0.25) as executor:
        assert (executor.device, executor.slots) == ("cuda", 4), executor.slots
        for seed in range(4):
            executor.submit(Job((endless(seed),), checkpoints=folder / str(seed)))
        deadline = time.monotonic() + 120
        while len({path.parent for path in folder.rglob("*.safetensors")}) < 4:
            assert time.monotonic() < deadline, "four do not run at once"
            assert executor.wait(0.2) == []
        executor.stop()
        stopped = []
        while len(stopped) < 4:
            stopped += executor.wait(1.0)
        assert {report.trouble for report in stopped} == {"stopped"}
    with RayTasks(cluster.address, "cuda") as executor:
        assert executor.slots == 1
    cluster.shutdown()
    print("shared")
"""


@pytest.mark.very_slow
def test_four_runs_share_a_gpu(tmp_path: Path) -> None:
    """Ray counts GPUs without looking at them: the cluster, found by `auto`, is told to have one."""
    (tmp_path / "shared.py").write_text(SHARED)
    command = [sys.executable, tmp_path / "shared.py", tmp_path / "checkpoints"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert done.stdout.endswith("shared\n"), done.stdout + done.stderr


@pytest.mark.parametrize(
    ("share", "jobs"), [(1, 1), (1.0, 1), (0.5, 2), (0.25, 4), (0.3, 3), (1e-4, 10_000), (0.51, 1)]
)
def test_shares_of_a_gpu(share: float, jobs: int) -> None:
    assert jobs_each(share) == jobs


@pytest.mark.parametrize("share", [0, 0.0, -0.25, 3.5, 2, 1e-5, float("nan"), float("inf"), True, "0.25"])
def test_what_is_no_share_of_a_gpu_is_refused(share: Any) -> None:
    with pytest.raises(SpecError, match=r"^gpus_per_run: "):
        RayTasks("local", "cuda", gpus_per_run=share)


def test_a_share_of_no_gpu_and_a_device_that_a_cluster_lacks_are_refused() -> None:
    with pytest.raises(SpecError, match=r"^gpus_per_run: needs device 'cuda', got 0.25"):
        RayTasks("local", "cpu", gpus_per_run=0.25)
    with pytest.raises(SpecError, match=r"^device: .* on a Ray cluster, got 'cuda:1'"):
        RayTasks("local", "cuda:1")


def test_auto_is_refused_soon_where_nothing_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "localhost:1")
    with pytest.raises(ClusterError, match=r"^ray: nothing answers at 'localhost:1'"):
        RayTasks("auto")


@pytest.mark.parametrize("address", ["nowhere", "host:", "localhost:1", "127.0.0.1:99999", "no.such.host.invalid:6379"])
def test_an_unknown_address_is_refused_soon(address: str) -> None:
    with pytest.raises(ClusterError, match=r"^ray: "):
        RayTasks(address)
