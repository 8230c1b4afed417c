"""A shell completes commands and flags."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from commands import refused, run


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.usefixtures("only_our_own")
def test_bash_completes_commands_and_flags(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    script = tmp_path / "capax.bash"
    script.write_text(run(capsys, "completion", "bash"))

    def completed(*words: str) -> set[str]:
        typed = " ".join(f"'{word}'" for word in words)
        ask = f"source {script}; COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; _capax; echo ${{COMPREPLY[@]}}"
        return set(subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True).stdout.split())

    assert completed("capax", "me") == {"measure"}
    assert {"sequences", "facts"} <= completed("capax", "measure", "")
    assert completed("capax", "measure", "sequences", "--library-s") == {"--library-size"}


def test_another_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "bash" in refused(capsys, "completion", "tcsh")
