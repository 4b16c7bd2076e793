"""Apptainer and Singularity: `apptainer exec ... IMAGE`; Singularity 3.8 and newer reads the same.

The job's environment goes into the container by itself, except for LD_LIBRARY_PATH.
"""

from __future__ import annotations

import io

from ...core import tokens
from ...core.model import BindMount
from ..stage_lines import image
from .base import Container

SPECIAL = ',:"\n'  # what stands between the parts of --bind


def argv(container: Container) -> list[str]:
    plan = container.plan
    command = [
        plan.launching.runtime,
        "exec",
        *["--nv"] * plan.gpus.nv,
        *["--rocm"] * plan.gpus.rocm,
    ]
    for bind in container.binds:
        command += bind_argv(bind)
    return [*command, *container.own_arguments, image(plan)]


def bind_argv(bind: BindMount) -> list[str]:
    """Return the option for one mount; paths with `,` or `:` need --mount, which reads CSV."""
    source = tokens.path(bind.source)
    if any(char in source + bind.target for char in SPECIAL):
        return ["--mount", mount(bind)]
    modes = ",".join(_modes(bind))
    text = f":{bind.target}" + (f":{modes}" if modes else "")
    return ["--bind", tokens.followed(source, text)]


def _modes(bind: BindMount) -> list[str]:
    """Return the options of a mount; image-src is the runtime's own (Singularity 3.7 and newer)."""
    source = [f"image-src={bind.image_src}"] if bind.image_src else []
    return source + ["ro"] * bind.read_only


def mount(bind: BindMount) -> str:
    """Return a mount as one line of CSV, which Apptainer, Podman and Docker read."""
    import csv  # here, because few paths need it

    fields = ["type=bind", f"source={tokens.path(bind.source)}", f"destination={bind.target}"]
    text = io.StringIO()
    # Before Python 3.13 only the characters of the line's own end are quoted.
    csv.writer(text, lineterminator="\r\n").writerow(fields + _modes(bind))
    return text.getvalue()[:-2]
