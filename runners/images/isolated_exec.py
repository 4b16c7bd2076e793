"""Runs a command inside an image with as little of this machine around it as possible."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ..core import runtime_pull, shell
from ..core.model import BindMount
from ..script.runtimes.apptainer import bind_argv

# An empty home and /tmp of their own, none of the user's variables: what is found or proven is the
# image's, and would be the same for others.
FLAGS = ("--cleanenv", "--contain", "--ipc")
# Variables with which the user would put more into each container.
PREFIXES = ("APPTAINERENV_", "SINGULARITYENV_", "APPTAINER_BIND", "SINGULARITY_BIND")


def run(image: Path, argv: Sequence[str], timeout: float, bind: Path | None = None) -> shell.Result:
    """Run `argv` in the image, for `timeout` seconds at most.

    `bind` is a file that is seen under its own path. Raises Refused without a container runtime,
    SystemFault when nothing answers in time.
    """
    env = {name: text for name, text in os.environ.items() if not name.startswith(PREFIXES)}
    binds = bind_argv(BindMount(str(bind), str(bind), read_only=True)) if bind else []
    return shell.run(
        [runtime_pull.command(), "exec", *FLAGS, *binds, str(image), *argv],
        env=env,
        timeout=timeout,
    )
