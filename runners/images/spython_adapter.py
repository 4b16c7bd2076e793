"""What spython does for us: asks the container runtime, writes definitions. Its only importer."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from ..core.errors import SystemFault


def labels(path: Path) -> dict[str, str]:
    """Let the runtime read the labels of an image too old to have a table of its own."""
    from spython.main import get_client

    runtime = shutil.which("apptainer") or shutil.which("singularity")
    if runtime is None:
        return {}  # unknown, which the plan says, since the runtime may exist on the nodes only
    client = get_client(quiet=True)
    # spython 0.3.14 always calls `singularity`, which is absent where only apptainer is.
    client._init_command = lambda action, flags=None: [runtime, *(flags or []), action]
    answer: Any = client.inspect(str(path))
    if "attributes" not in answer:
        words = "".join(answer.get("message", ""))  # a string, or a list of lines
        raise SystemFault(f"{runtime} inspect {path} failed", words)
    return dict(answer["attributes"].get("labels") or {})


def definition(path: Path) -> str:
    """Return the definition that spython's parser makes of a Dockerfile.

    It reads line by line and knows no quotes, no continued lines, no ARG and no USER (0.3.14):
    give it one instruction a line, of single words (see convert.py). Raises SystemFault.
    """
    from spython.logger import bot
    from spython.main.parse.parsers import get_parser
    from spython.main.parse.writers import get_writer

    bot.level = -5  # its warnings are about files beside it, which are ours
    try:
        recipe = get_parser("docker")(str(path)).recipe
        return str(get_writer("singularity")(recipe).convert())
    except SystemExit as stop:  # spython ends the program where it cannot go on
        raise SystemFault(f"spython cannot read {path}") from stop
