"""The rule that looks into the image, where it is at hand."""

from __future__ import annotations

import os
from pathlib import Path

from ...core.errors import RunnerError
from ...core.plan import Plan
from ...core.progress import Listener
from ...launching import gather
from ..script import Script
from .rule import Places, rule


@rule("mpi-plugin")
def mpi_plugin(script: Script) -> Places:
    for step in script.steps:
        mpi, image = step.starter.text("mpi"), step.image
        if image is None or not image.portable or mpi in ("", "none") or "$" in mpi:
            continue
        path = Path(os.path.expandvars(image.text))
        if path.is_file():
            yield from _planned(step.line, path, mpi)


def _planned(line: int, image: Path, mpi: str) -> Places:
    """Yield what the plan refuses with this --mpi=, and not with the one that it takes itself."""
    try:
        free, asked = _plan(image), _plan(image, mpi=mpi)
    except RunnerError:
        return  # nothing can be told of this image here
    anyway = {each.what for each in free.refusals}
    for refusal in asked.refusals:
        if refusal.what not in anyway:
            right = f"--mpi={free.wireup.mpi}" if free.wireup.mpi else refusal.evidence
            yield line, refusal.what, right


def _plan(image: Path, **more: str) -> Plan:
    asked = {"image": str(image), "launcher": "srun", "controller": "mpi", "ntasks": 2, **more}
    return gather.plan("bash", ("-c", "true"), asked, True, Listener())
