"""Conformance suites: what every task, model, mixer, law and executor has to do, as test classes to be inherited.

A subclass says what is tested, and pytest runs the rest (`pip install pytest`). Those of capax pass the same suites.

    import capax.testing
    from pairs import Pairs

    class TestPairs(capax.testing.TaskSuite):
        task = Pairs(n_keys=20, n_values=5, library_size=12)
"""

import pytest

pytest.register_assert_rewrite(*(f"{__name__}.{part}" for part in ("executors", "laws", "mixers", "models", "tasks")))

from capax.testing.executors import ExecutorSuite as ExecutorSuite  # noqa: E402
from capax.testing.laws import LawSuite as LawSuite  # noqa: E402
from capax.testing.mixers import MixerSuite as MixerSuite  # noqa: E402
from capax.testing.models import ModelSuite as ModelSuite  # noqa: E402
from capax.testing.tasks import TaskSuite as TaskSuite  # noqa: E402
