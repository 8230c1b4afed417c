"""What the tests of training share."""

from collections.abc import Iterator

import pytest

from capax.training.workers import Workers


@pytest.fixture(scope="session")
def two_processes() -> Iterator[Workers]:
    """Two worker processes: each takes seconds to start."""
    with Workers(2) as two:
        yield two
