"""A Jupyter kernel for another server, such as a site's hub: `runner jupyter --kernel NAME`.

Its folder is one of the user's own, where each server of the account looks (Jupyter's
documentation, "Making kernels for Jupyter"). The script in it enters the image as a rank does.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from .. import runtimes
from ..core import atomic, shell
from ..core.errors import Refused, UsageError
from ..core.job_record import JobPaths
from ..core.model import BY_MODULES, RuntimeName
from ..core.plan import Plan
from ..core.version import __version__
from ..launching import private_folder
from ..launching.run_folder import claimed, copy_injob
from ..runtimes import FILES, STORES
from ..script import environment, ranks, render

SPEC = "kernel.json"
NAME = re.compile(r"[A-Za-z0-9._-]+")  # jupyter_client, kernelspec.py
NEEDS = "ipykernel_launcher"
SECONDS = 300


@dataclass(frozen=True)
class Kernel:
    """A kernel before anything is written: the text of kernel.json, and of its script."""

    paths: JobPaths
    plan: Plan
    spec: str
    script: str


def folder(name: str) -> Path:
    """Return the folder of a kernel of that name; raise UsageError for a name that is none."""
    if not NAME.fullmatch(name) or name.startswith("."):
        raise UsageError(
            f"--kernel {name!r}: letters, digits, '.', '_' and '-' make a name",
            id="kernel-name-invalid",
        )
    share = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    data = Path(os.environ.get("JUPYTER_DATA_DIR") or share / "jupyter")
    return data.absolute() / "kernels" / name.lower()  # as jupyter_client reads it


def draft(name: str, folder: Path, plan: Plan, again: str) -> Kernel:
    """Return the kernel. Raises UsageError for a folder that is no kernel of ours, or staging."""
    paths = JobPaths(folder)
    if folder.exists() and not paths.enter.is_file():
        raise UsageError(
            f"--kernel {name}: {folder} is there, and runner did not make it",
            remedy="another NAME",
            id="kernel-name-taken",
        )
    if plan.staging.any:
        raise UsageError(
            "--kernel: --stage-image and --stage-data need a job, and this has none",
            id="kernel-staging",
        )
    # By message: the runtimes pass signals on in different ways.
    spec = {
        "argv": [
            *("bash", str(paths.enter), "{connection_file}", runtimes.python(plan)),
            *("-m", NEEDS, "-f", "{connection_file}"),
        ],
        "display_name": name,
        "language": "python",
        "interrupt_mode": "message",
        "metadata": {"debugger": True},
    }
    return Kernel(paths, plan, json.dumps(spec, indent=1), _script(plan, paths, again))


def _script(plan: Plan, paths: JobPaths, again: str) -> str:
    """Return the script of a Jupyter kernel: its connection file, then the command in the image.

    It stays in the folder of the notebook. `again` is the command that writes it again.
    """
    return render.joined(
        [
            "#!/bin/bash",
            f"# Written by runner {__version__}: a Jupyter kernel. Written again by: {again}",
            f"run={shlex.quote(str(paths.root))}",
            "connection=$1; shift",
        ],
        _image_gone(plan, again),
        [*environment.modules(plan), *environment.NO_STEP],
        environment.lines(plan, paths),
        [*_shown(plan, '$(dirname "$connection")'), ranks.one(plan, paths)],
    )


def _image_gone(plan: Plan, again: str) -> list[str]:
    """Return the check that a file or folder of the image is there; none for names in a store."""
    image = plan.spec.image
    if plan.launching.runtime in STORES or image.brought_by == BY_MODULES:
        return []
    path = image.path / "bin/python" if plan.launching.runtime is RuntimeName.NONE else image.path
    words = shlex.quote(f"runner: the image of this kernel is gone: {path}")
    tell = f"echo {words} >&2; echo {shlex.quote(f'  try: {again}')} >&2"
    return [f"[ -e {shlex.quote(str(path))} ] || {{ {tell}; exit 1; }}"]


def _shown(plan: Plan, folder: str) -> list[str]:
    """Return the line that shows one more folder, as bash reads it, to what runs in the image.

    Others than Apptainer and Singularity show the home, where it mostly lies, or everything.
    """
    if plan.launching.runtime not in FILES:
        return []
    name = f"{plan.launching.runtime.upper()}_BIND"
    return [f'export {name}="${{{name}:+${name},}}{folder}"']


def write(kernel: Kernel) -> None:
    """Write the kernel. Raises Refused without ipykernel in its Python; no new one is left then."""
    paths = kernel.paths
    # With its folder in place of a connection file.
    python = ["bash", str(paths.enter), str(paths.root), runtimes.python(kernel.plan)]
    with nullcontext() if paths.root.exists() else claimed(paths.root):
        _fill(kernel)
        done = shell.run([*python, "-c", f"import {NEEDS}"], timeout=SECONDS)
        if done.code:
            raise Refused(
                f"the kernel does not start: {kernel.plan.spec.image.path.name} has no ipykernel",
                done.err.strip(),
                "runner build --from IMAGE --requirements FILE, with ipykernel in the file",
                id="ipykernel-missing",
            )


def _fill(kernel: Kernel) -> None:
    paths = kernel.paths
    paths.code.mkdir(0o700, exist_ok=True)
    shutil.rmtree(paths.injob, ignore_errors=True)
    copy_injob(paths)
    atomic.write_text(paths.enter, kernel.script, private=True)
    if kernel.plan.spec.env:
        private_folder.write(paths, paths.env.name, runtimes.own_file(kernel.plan))
    atomic.write_text(paths.root / SPEC, kernel.spec)
