"""Finds the image of a launch on this machine, for the nodes' architecture; reads its labels."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..core import places, sif, trust, untrusted_folder
from ..core.errors import NotFound, Refused, RunnerError, SystemFault, UsageError, nearest
from ..core.files import DAMAGED
from ..core.machine import WORDS
from ..core.model import ImageInfo
from ..core.remedy import Remedy, command
from . import images_lock, store
from .store import Stored


class ImageMissing(NotFound):
    """No file has that name; `short` is the image of ours that brings it, "" for none."""

    short = ""


def find(name: str | None) -> Path:
    """Return the image's path: as given, or by name in the images folder on scratch.

    Raises UsageError when none was asked for, and for another user's in the current folder under a
    name without a slash; NotFound with the nearest names when there is none.
    """
    if not name:
        raise UsageError("no image was given", remedy="--image horovod_cpu.sif")
    if "://" in name:
        raise UsageError(f"{name} is not on this machine", remedy=f"runner pull {name}")
    here = Path(name).expanduser()
    if here.exists():
        if "/" not in name:
            trust.check(here, os.environ)  # the one in the images folder may be meant
        return here.absolute()
    if (places.images() / name).exists():
        return places.images() / name
    return _missing(name)


def _missing(name: str) -> Path:
    from . import prebuilt  # only here, since launches mostly find their image

    folders = {Path(name).expanduser().parent, places.images()}
    files = [str(file) for folder in folders for file in folder.glob("*.sif")]
    near = nearest(Path(name).name, [Path(file).name for file in files])
    looked = ", ".join(sorted(str(folder) for folder in folders))
    short = prebuilt.short(Path(name).name)
    error = ImageMissing(
        f"the image {name} does not exist",
        f"looked in {looked}\n{near}",
        _brought(short) if short or not near else (),
    )
    error.short = short if name == Path(name).name else ""
    raise error


def _brought(short: str) -> list[Remedy]:
    """Return the commands that bring an image of ours into the images folder."""
    from . import prebuilt

    known = prebuilt.place(os.environ).source
    return [command("runner", verb, short or "cpu") for verb in (*["pull"] * bool(known), "build")]


def read(path: Path) -> ImageInfo:
    """Return the image's labels; raise Refused for a file that is not a complete SIF file."""
    if path.is_dir():
        return ImageInfo(path, _sandbox_labels(path))
    try:
        labels, architecture = sif.labels(path), sif.architecture(sif.objects(path))
    except (sif.SifError, OSError, ValueError) as error:
        raise Refused(
            f"{path} cannot be used as an image", str(error), "copy or build it again"
        ) from None
    found = labels if labels is not None else _labels_by_runtime(path)
    return ImageInfo(path, found, architecture=architecture or "")


def _labels_by_runtime(path: Path) -> dict[str, str]:
    """Let the runtime read the labels of an image too old to have a table of its own."""
    from spython.main import get_client

    runtime = shutil.which("apptainer") or shutil.which("singularity")
    if runtime is None:
        return {}  # unknown, which the plan says, since the runtime may exist on the nodes only
    client = get_client(quiet=True)
    # spython 0.3.14 always calls `singularity`, which is absent where only apptainer is.
    client._init_command = lambda action, flags=None: [runtime, *(flags or []), action]
    answer: Any = client.inspect(str(path))
    if "attributes" not in answer:
        words = "".join(answer.get("message", ""))  # a string, or a list of lines
        raise SystemFault(f"{runtime} inspect {path} failed", words)
    return dict(answer["attributes"].get("labels") or {})


def _sandbox_labels(path: Path) -> dict[str, str]:
    if not untrusted_folder.is_folder(path, ".singularity.d"):
        missing = f"{path / '.singularity.d'} is missing"
        raise Refused(f"{path} is a folder, but not a sandbox image", missing)
    try:
        with untrusted_folder.open_file(path, ".singularity.d/labels.json") as file:
            labels = json.loads(file.read(sif.LARGEST_METADATA))
        return {str(name): str(text) for name, text in labels.items()}
    except FileNotFoundError:
        return {}
    except (OSError, *DAMAGED) as error:
        # Not repeated: a link could lead to a private file.
        what = f"its .singularity.d/labels.json: {type(error).__name__}"
        raise Refused(f"{path} cannot be used as an image", what) from None


def on_disk(name: str | None) -> ImageInfo:
    """Return the image that `name` means, with its labels.

    A name in this folder's images.lock means the image that is recorded there. Raises a RunnerError
    that says why there is no such image.
    """
    stored = _locked(name) if name else None
    if stored:
        return of_store(stored)
    path = find(name)
    target = path.resolve()
    stored = store.at(target)
    return of_store(stored) if stored and stored.path == target else read(path)


def _locked(name: str) -> Stored | None:
    entry = images_lock.find(images_lock.here(), name)
    if entry is None or Path(name).exists():
        return None
    stored = store.find(entry.digest)
    if stored is None:
        raise NotFound(
            f"{name} is not on this machine as images.lock has it",
            f"{entry.digest} is not in {places.images()}",
            f"runner pull {entry.source} --name {name}",
        )
    return stored


def of_store(stored: Stored) -> ImageInfo:
    """Name the file by its digest: the job may start after the name has moved on."""
    return replace(read(stored.path), source=stored.source, digest=stored.digest)


def for_nodes(name: str | None, image: ImageInfo, wanted: str) -> tuple[ImageInfo, str]:
    """Return the image of this name for nodes of an architecture, and why it is another one.

    `horovod_cpu.sif` and `horovod_cpu.arm64.sif` are the same image. Where the other is not there,
    or is not for these nodes, the image stays as it was asked for, without a reason.
    """
    there = image.architecture
    if not name or "://" in name or not wanted or there in ("", wanted):
        return image, ""
    for other in _others(Path(name), wanted):
        try:
            found = on_disk(str(other))
        except RunnerError:  # what it is missing for is told of the image that was asked for
            continue
        if found.architecture == wanted:
            return found, f"the nodes are {wanted}, for which there is {other.name}"
    return image, ""


def _others(path: Path, wanted: str) -> list[Path]:
    """Return what the image may be called for others: with the architecture, or without."""
    kind, stem = path.suffix, path.with_suffix("")
    plain = stem.with_suffix("") if stem.suffix[1:] in WORDS.values() else stem
    names = [f"{plain}.{wanted}{kind}", f"{plain}{kind}"]
    return [Path(each) for each in names if each != str(path)]
