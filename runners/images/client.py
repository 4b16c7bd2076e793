"""The container runtime, asked through spython. The only importer of spython."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from ..errors import SystemFault


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
