"""Brings the images to a cluster's scratch, making those that are not there yet."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from containers import image_catalogue, pip, wheels
from tests.cluster import builds
from tests.cluster.state import UID, USER, State

from . import kinds, make

OPENMPI4 = "openmpi4"  # our CPU image
NAMES = (OPENMPI4, *kinds.KINDS)


def bring(state: State, names: Sequence[str]) -> dict[str, str]:
    """Path on the cluster of each image by name; takes minutes for what has to be made.

    The CPU image has to be there: make build-cpu.
    """
    folder = state.scratch / USER / "images"
    folder.mkdir(exist_ok=True)
    for name, file in _made(state, [name for name in names if name != OPENMPI4]).items():
        _link(file, folder / f"{name}.sif")
    # Of a second cluster, ours is a mount, which has no other name.
    files = {name: "horovod_cpu" if name == OPENMPI4 else name for name in names}
    return {name: f"/scratch/{USER}/images/{file}.sif" for name, file in files.items()}


def _link(source: Path, target: Path) -> None:
    if target.exists() and target.samefile(source):
        return
    target.unlink(missing_ok=True)
    os.link(source, target)


def _made(state: State, names: Sequence[str]) -> dict[str, Path]:
    plan = builds.image_plan(state)
    results = plan.folders.cache / "matrix"
    results.mkdir(parents=True, exist_ok=True)
    os.chown(results, UID, UID)
    files = {name: kinds.file_name(kinds.KINDS[name]) for name in names}
    if not all((results / name).exists() for name in files.values()):
        with (results / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # another may be making them
            missing = [name for name in names if not (results / files[name]).exists()]
            if missing and not plan.wheels.exists():
                wheels.fetch(plan.image, pip.PackageSource(), plan.wheels)
            binds = {plan.wheels: make.WHEELS, _mpis(results): make.MPIS}
            _run(state, binds, results, [f"{name}={files[name]}" for name in missing])
    return {name: results / files[name] for name in names}


def _mpis(results: Path) -> Path:
    """The wheels of MPIs, fetched by this machine's pip."""
    folder = results / "mpis"
    locks = [kinds.HERE / kind.lock for kind in kinds.KINDS.values()]
    words = [f"--requirement={lock}" for lock in sorted(set(locks)) if lock.read_text()]
    image = image_catalogue.image("cpu")
    target = pip.target(image.python, image.glibc_minor)
    pip.run(["download", "--no-deps", "--require-hashes", f"--dest={folder}", *words, *target])
    return folder


def _run(state: State, binds: dict[Path, Path], results: Path, words: Sequence[str]) -> None:
    shared = [f"--bind={source}:{target}" for source, target in binds.items()]
    command = [
        *(sys.executable, "-m", "tests.cluster", "--state", str(state.root), "toolbox"),
        *(*shared, f"--bind={results}:{make.RESULTS}:rw"),
        *("--", "env", "-C", builds.KIT, "PYTHONDONTWRITEBYTECODE=1"),
        *("/opt/runner/bin/python", "-m", "tests.matrix.images.make", *words),
    ]
    subprocess.run(command, cwd=image_catalogue.CHECKOUT, check=True)


if __name__ == "__main__":
    for given, path in bring(State.locate(), sys.argv[1:] or NAMES).items():
        print(given, path)
