"""A tag that no task or model has: the error says how a plugin's is made known."""

from __future__ import annotations

import pytest
from smallest import refused


@pytest.mark.parametrize(
    "arguments", [("measure", "pears"), ("construct", "pears"), ("measure", "sequences", "--model", "pear")]
)
def test_a_plugin_may_bring_it(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    line = refused(capsys, *arguments)
    assert "--plugin" in line
    assert "CAPAX_PLUGINS" in line
    assert arguments[-1] in line


def test_no_plugin_brings_protocols_or_commands(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (("measure", "sequences", "--protocol", "mack"), ("measures",), ("check", "mode")):
        line = refused(capsys, *arguments)
        assert "--plugin" not in line
        assert "one of" in line
