"""The scratch is full, the image or the run's folder is taken away."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from pathlib import Path

from tests.cluster.state import UID, USER

from .fault import STORAGE, fault
from .place import IMAGE
from .scene import Scene

MARGIN = 8 * 2**20  # bytes, in which others may write meanwhile


def fill(scene: Scene, leave: int = 0, lines: int = 0) -> Path:
    """Fill the scratch but for `leave` bytes, or for `lines` bytes that hold lines of a log."""
    path = scene.here / "ballast"
    disk = os.statvfs(scene.here)
    size = max(0, disk.f_bavail * disk.f_frsize - leave - MARGIN)
    with path.open("wb", buffering=0) as file:
        os.posix_fallocate(file.fileno(), 0, size)
        file.seek(0, os.SEEK_END)
        with contextlib.suppress(OSError):  # until it is full, though others write too
            while not leave:
                file.write(bytes(4096))
        file.truncate(file.tell() - lines)
    return path


@fault(STORAGE, "scratch full in training, until after the end")
def full(scene: Scene) -> None:
    """What was saved before stays, and what cannot be written is told."""
    scene.explained("disk-full")
    client = scene.launch(step=0.05)
    scene.training(25)
    scene.strike(lambda: fill(scene))
    scene.ends(client, 1, "no space left where the run writes", within=60)
    (scene.here / "ballast").unlink()
    scene.expect(bool(list(scene.run.checkpoints.glob("step-*.ckpt"))), "no checkpoint is left")


@fault(STORAGE, "scratch full for 5 s in training")
def full_shortly(scene: Scene) -> None:
    """The job goes on, and its result is there."""
    scene.explained("completed")
    client = scene.launch()
    scene.training(25)
    scene.strike(lambda: fill(scene, lines=2**16))
    scene.until_quietly(lambda: scene.lasted(5), 20)
    (scene.here / "ballast").unlink()
    scene.ends(client, 0, within=60)
    scene.says(client.out, "warning: no checkpoint")
    scene.expect((scene.run.root / "result.json").exists(), "there is no result")


@fault(STORAGE, "scratch full when a job is submitted")
def full_before(scene: Scene) -> None:
    """Nothing is submitted."""
    scene.strike(lambda: fill(scene, leave=2**20))
    client = scene.launch()
    scene.ends(client, 80, "no space for the run", within=20)
    scene.expect(not scene.runs(), "a run's folder is left")
    (scene.here / "ballast").unlink()


def _own_image(scene: Scene) -> tuple[Path, str]:
    """A copy of the image that may be spoilt; in the home, as the scratch is small."""
    folder = scene.place.state.home / USER / "images"
    path = folder / "spoilt.sif"
    shutil.copyfile(folder / Path(IMAGE).name, path)
    os.chown(path, UID, UID)
    path.chmod(0o755)
    return path, f"/home/{USER}/images/spoilt.sif"


@fault(STORAGE, "the image deleted in training: the job goes on")
def image_deleted(scene: Scene) -> None:
    """What is open stays readable, on a file system of this machine."""
    scene.explained("completed")
    path, image = _own_image(scene)
    client = scene.launch(image=image, step=0.05)
    scene.training()
    scene.strike(path.unlink)
    scene.ends(client, 0, within=60)


@fault(STORAGE, "the image deleted while the job waits in the queue")
def image_gone(scene: Scene) -> None:
    """The ranks cannot start."""
    scene.explained("image-missing")
    path, image = _own_image(scene)
    client = scene.launch("--sbatch-arg=--begin=now+3", image=image)
    scene.until(lambda: scene.runs() and scene.run.job.exists(), "submission")
    scene.strike(path.unlink)
    scene.ends(client, 255, "spoilt.sif", within=40)


@fault(STORAGE, "the image written over in training")
def image_overwritten(scene: Scene) -> None:
    """As `cp new.sif old.sif` does, and not `mv`."""
    scene.explained("image-overwritten")
    path, image = _own_image(scene)
    client = scene.launch(image=image, step=0.5)
    scene.training(3)
    scene.write("rank-1", "import xml.dom.minidom, wsgiref.validate, sqlite3, asyncio")
    scene.strike(lambda: path.write_bytes(b"another image"))
    scene.ends(client, None, "was overwritten after the job", within=60)


@fault(STORAGE, "the run's folder deleted in training")
def folder_deleted(scene: Scene) -> None:
    """As a clean-up of scratch does."""
    client = scene.launch(step=0.2)
    scene.training()
    scene.strike(lambda: shutil.rmtree(scene.run.root))
    time.sleep(2)
    scene.ends(client, 1, "folder", within=60)
