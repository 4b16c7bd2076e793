"""A cluster beside the one that the tests run on: another release, other names, another site."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster import nodes
from tests.cluster.design import CONTROLLER
from tests.cluster.state import CHECKOUT, UID, USER, State, locked

IMAGE, UNPACKED = "images/horovod_cpu.sif", "unpacked"  # below /scratch/ada


@contextmanager
def cluster(*options: str) -> Iterator[None]:
    """Start a cluster with these options of `up`; commands go there until it ends.

    Nothing of it is left.
    """
    first = State.locate()
    own = State(first.cache, first.root.with_name(f"{first.root.name}-beside-{os.getpid()}"))
    command = [sys.executable, "-m", "tests.cluster", "--state", str(own.root)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RUNNER_TEST_CLUSTER", str(own.root))
        try:
            binds = _show_image(first, own)
            subprocess.run([*command, "up", *binds, *options], cwd=CHECKOUT, check=True)
            yield
        finally:
            subprocess.run([*command, "down"], cwd=CHECKOUT, check=True)
            shutil.rmtree(own.root)


def unpack(state: State) -> None:
    """Unpack a cluster's CPU image, for all runs of the tests until the image changes.

    PyTorch's import takes two thirds of the CPU time that it takes in the packed image,
    TensorFlow's a little more than half: the kernel keeps what a rank has read for all others.
    """
    home = state.scratch / USER
    image, known = home / IMAGE, home / f".{UNPACKED}-of"
    with locked(state.cache / UNPACKED):
        now = f"{image.stat().st_size} {image.stat().st_mtime_ns}"
        if state.design.binds or (known.exists() and known.read_text() == now):
            return
        script = (
            f"chmod -Rf u+w {UNPACKED}; rm -rf {UNPACKED}; apptainer build -s {UNPACKED} {IMAGE}"
        )
        entering = nodes.enter_argv(state, CONTROLLER, ["bash", "-c", script], USER)
        subprocess.run(entering, check=True)
        known.write_text(now)


def _show_image(first: State, own: State) -> list[str]:
    """Return the options of `up` that show the CPU image of another cluster, in both forms.

    Not a link: that changes the file's ctime, by which those who use it there see a new file. The
    small files beside it are copied. A cluster that was shown the image has it at no other place.
    """
    own.create_shared()
    images = own.scratch / USER / "images"
    images.mkdir()
    for image in (first.scratch / USER / "images").glob("*horovod_cpu*"):
        if image.name != Path(IMAGE).name:
            shutil.copy2(image, images / image.name)
    for path in (images, *images.iterdir()):
        os.chown(path, UID, UID)
    shown = [f"{USER}/{name}" for name in (IMAGE, UNPACKED)]
    binds = first.design.binds or [f"{first.scratch / name}:/scratch/{name}" for name in shown]
    return [f"--bind={bind}" for bind in binds]
