"""`runner build env`: an environment on the host, with Horovod compiled against the host's MPI."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from containers import host_environment
from containers.catalogue import IMAGES
from containers.host_environment import Asked

from ..core.errors import UsageError
from ..images import environment, environment_label
from . import build_options
from .progress import phases

ENV = "env"
FORM = f"{ENV} DIR, or {ENV} DIR {'|'.join(IMAGES)}: whose packages it has (default: cpu)"
NOT_HERE = "is for images, not for an environment"
OF_IMAGES = ("output", "base", "frozen", "ca", *build_options.OF_BASES)


def build(words: Sequence[str], dry_run: bool, values: Mapping[str, Any]) -> None:
    """Make the environment and its label. Raises RunnerError."""
    if not 1 <= len(words) <= 2:
        raise UsageError(f"say where: {FORM}")
    build_options.refuse(values, OF_IMAGES, NOT_HERE)
    if dry_run:
        raise UsageError(f"--dry-run {NOT_HERE}")
    asked = Asked(
        folder=Path(words[0]).expanduser().absolute(),
        image=words[1] if len(words) > 1 else "cpu",
        into=values["into"],
        mpi=values["mpi"],
        modules=values["module"],
        source=build_options.source(values),
    )
    progress = phases()
    with host_environment.kept(asked):
        made = host_environment.build(asked, progress)
        with progress.phase("its test", lambda: ""):
            host_environment.prove(asked.folder, made.environ)
            facts = environment.look(asked.folder, made.environ)
        environment_label.write(asked.folder, facts, asked.modules, made.library)
    progress.say(_told(facts, made.library))
    click.echo(asked.folder)


def _told(facts: Mapping[str, str], library: str) -> str:
    horovod = f"Horovod {facts['horovod.version']}, {facts.get('horovod.controllers', '')}"
    if not library:
        return horovod
    return f"{horovod}, {facts['mpi.flavour']} {facts['mpi.version']} ({library})"
