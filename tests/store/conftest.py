"""What tests of the store have in common."""

import pytest
from stores import measured

from capax.results import Measurement


@pytest.fixture(scope="session")
def three() -> list[Measurement]:
    return [measured(seed) for seed in range(3)]
