"""`capax completion`: what a shell needs to complete commands and flags."""

from __future__ import annotations

from typing import Literal

from capax.cli import command_line


def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print a script that completes commands and flags in a shell.

    bash: capax completion bash > ~/.local/share/bash-completion/completions/capax; zsh: into a file _capax in a folder
    of $fpath; fish: > ~/.config/fish/completions/capax.fish. It knows the tasks and models that are registered when it
    is written, --plugin's too.

    Parameters
    ----------
    shell
        Which shell.
    """
    print(command_line().generate_completion(prog_name="capax", shell=shell))
