"""A cluster beside the one that the tests run on: another release, other names, another site."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cluster.state import CHECKOUT, UID, USER, State

IMAGE = "horovod_cpu.sif"


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


def _show_image(first: State, own: State) -> list[str]:
    """Return the options of `up` that show the CPU image of another cluster, read-only.

    Not a link: that changes the file's ctime, by which those who use it there see a new file. The
    small files beside it are copied. A cluster that was shown the image has it at no other place.
    """
    own.create_shared()
    images = own.scratch / USER / "images"
    images.mkdir()
    for image in (first.scratch / USER / "images").glob("*horovod_cpu*"):
        if image.name != IMAGE:
            shutil.copy2(image, images / image.name)
    for path in (images, *images.iterdir()):
        os.chown(path, UID, UID)
    name = f"{USER}/images/{IMAGE}"
    binds = first.design.binds or (f"{first.scratch / name}:/scratch/{name}",)
    return [f"--bind={bind}" for bind in binds]
