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
        starter, image = step.layer("starter"), step.image
        mpi = starter.get("mpi") if starter is not None else None
        if mpi is None or image is None or mpi.known in (None, "none"):
            continue
        path = Path(os.path.expandvars(image.text))
        if image.portable and path.is_file():
            yield from _planned(step.line, path, mpi.text)


def _planned(line: int, image: Path, mpi: str) -> Places:
    """Yield what the plan refuses with this --mpi=, and not with the one that it takes itself."""
    try:
        free = _plan(image, {})
        refused = {each.what: each for each in _plan(image, {"mpi": mpi}).refusals}
    except RunnerError:
        return  # nothing can be told of this image here
    for each in free.refusals:
        refused.pop(each.what, None)
    for what, refusal in refused.items():
        right = f"--mpi={free.wireup.mpi}" if free.wireup.mpi else refusal.evidence
        yield line, what, right


def _plan(image: Path, more: dict[str, str]) -> Plan:
    asked = {"image": str(image), "launcher": "srun", "controller": "mpi", "ntasks": 2, **more}
    return gather.plan("bash", ("-c", "true"), asked, True, Listener())


RULES = (mpi_plugin,)
