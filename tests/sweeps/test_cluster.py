"""Ray tasks keep the executors' contract, on a real cluster of two nodes; a node that is lost loses its job alone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import capax
from capax.sweeps.cluster import ClusterError, RayTasks
from capax.sweeps.executors import Executor
from capax.testing import ExecutorSuite
from capax.testing.executors import small

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Ray leaves its log files open
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning:ray"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),
]


@pytest.mark.slow
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


@pytest.mark.slow
def test_two_nodes_give_the_results_of_local_processes(tmp_path: Path) -> None:
    assert swept(tmp_path, 5, lose=False) == local(tmp_path, 5)


@pytest.mark.slow
def test_a_node_that_is_lost_changes_nothing(tmp_path: Path) -> None:
    assert swept(tmp_path, 600, lose=True) == local(tmp_path, 600)


@pytest.mark.parametrize("address", ["nowhere", "host:", "localhost:1", "127.0.0.1:99999", "no.such.host.invalid:6379"])
def test_an_unknown_address_is_refused_soon(address: str) -> None:
    with pytest.raises(ClusterError, match=r"^ray: "):
        RayTasks(address)
