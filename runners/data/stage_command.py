"""`runner data stage`: what a job's script does with its data, for a command in an allocation."""

from __future__ import annotations

import os
from collections.abc import Mapping

from .. import injob
from ..core.errors import Refused
from ..core.model import Dataset
from ..core.tokens import join
from ..script import stage_lines


def text(data: tuple[Dataset, ...], root: str, command: list[str], env: Mapping[str, str]) -> str:
    """Return the script: stage, run the command with DATA_DIR set, remove.

    Within a Slurm job it does so on all of its nodes, elsewhere on this machine.
    """
    nodes = env.get("SLURM_JOB_NUM_NODES", "1")
    scheduler = "allocation" if env.get("SLURM_JOB_ID") else "local"
    staging = stage_lines.Staging(data, scheduler, int(nodes) if nodes.isdigit() else 1, root)
    lines = ["finish() { :; }", *stage_lines.lines(staging, injob.HERE)]
    place = f'"$stage"/{data[0].entry}' if len(data) == 1 else '"$stage"'
    return "\n".join([*lines, f"export DATA_DIR={place}", join(command)])


def run(text: str) -> None:
    """Become the script; return only by Refused when this machine has no bash."""
    try:
        os.execvp("bash", ["bash", "-c", text])
    except OSError as error:
        raise Refused("there is no bash on this machine", str(error)) from None
