"""`runner` for root on this machine: as user ada, in the toolbox, with the host's network and pip.

Root of a restricted machine may lack capabilities that Apptainer wants of root, and an ordinary
user is what builds images elsewhere. Wheels and intermediate results lie in the cache of this
machine; images and Apptainer's own folders on the cluster's scratch.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from containers import build_plan, image_catalogue, pip
from containers.build_folders import BuildFolders
from containers.build_plan import BuildPlan
from runners.core import atomic

from . import toolbox
from .namespaces import Bind
from .state import CHECKOUT, UID, USER, State

KIT = "/opt/kit"  # the checkout
CACHE = "/var/cache/horovod-runner"
SCRATCH = f"/scratch/{USER}"
KEPT = ("wheels", "builds")  # of the cache
# What the caller's environment says to `runner`, but for where things lie.
OURS = ("RUNNER_", "APPTAINER_NOHTTPS")
PLACES = ("RUNNER_CACHE", "RUNNER_SCRATCH", "RUNNER_TEST_CLUSTER")


def argv(state: State, words: Sequence[str], binds: Sequence[Bind] = ()) -> list[str]:
    """Return the host command that runs `runner` with these words, in ada's folder on scratch."""
    state.create_shared()
    _prepare(state)
    passed = _passed(os.environ)
    settings = {
        "RUNNER_CACHE": CACHE,
        "RUNNER_SCRATCH": SCRATCH,
        "PIP_CONFIG_FILE": f"{SCRATCH}/horovod-runner/pip.conf",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": KIT,
        **_revision(words),
        **passed,
    }
    command = [
        *("env", *(f"{name}={value}" for name, value in settings.items())),
        *("/opt/runner/bin/python", "-m", "runners", *words),
    ]
    kept = [Bind(state.cache / name, f"{CACHE}/{name}", read_only=False) for name in KEPT]
    named = [Bind(Path(value), value) for value in passed.values() if _is_bound(value)]
    named += [Bind(folder, str(folder)) for folder in _package_folders()]
    return toolbox.argv(state, command, USER, [*kept, *named, *binds])


def image_plan(state: State) -> BuildPlan:
    """Return what a build of the CPU image makes, with its places as this machine sees them."""
    scratch = state.scratch / USER
    folders = BuildFolders(state.cache, scratch / "horovod-runner", scratch / "images")
    made = build_plan.make("cpu", build_plan.BuildOptions())
    return replace(made, folders=folders, output=folders.images / made.output.name)


def _passed(environ: Mapping[str, str]) -> dict[str, str]:
    """Settings of `runner` that hold in the toolbox too."""
    return {
        name: value
        for name, value in environ.items()
        if name.startswith(OURS) and name not in PLACES
    }


def _is_bound(value: str) -> bool:
    """Whether it is a file or folder of this machine, which the toolbox has to see."""
    return value.startswith("/") and not value.startswith("/scratch/") and Path(value).exists()


def _package_folders() -> list[Path]:
    """Return the folders of this machine in which its pip looks for packages."""
    machine = {name: text for name, text in pip.machine_settings().items() if name in pip.FOLDERS}
    named = pip.local_paths(pip.settings(machine, pip.PackageSource(), Path.cwd()))
    return [folder for folder in dict.fromkeys(named) if folder.is_dir()]


def _revision(words: Sequence[str]) -> dict[str, str]:
    """The revision of the image that is built: the toolbox has no git."""
    images = [word for word in words if word in image_catalogue.IMAGES]
    change = (
        build_plan.last_change(CHECKOUT, build_plan.inputs(image_catalogue.image(images[0])))
        if images
        else ""
    )
    return {build_plan.REVISION: change} if change else {}


def _prepare(state: State) -> None:
    """Make the folders that ada fills, and tell her pip where this machine's pip looks."""
    work = state.scratch / USER / "horovod-runner"
    for folder in (*(state.cache / name for name in KEPT), work):
        folder.mkdir(parents=True, exist_ok=True)
        os.chown(folder, UID, UID)
    settings = pip.machine_settings()
    kept = {name: text for name, text in settings.items() if name not in pip.FILES}
    path = work / "pip.conf"  # private: an index may be named with a password
    atomic.write_text(path, pip.render_settings(kept), private=True)
    os.chown(path, UID, UID)
