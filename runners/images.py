"""Finds an image and reads what it says of itself. The only importer of spython."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from . import places, sif
from .errors import NotFound, Refused, SystemFault, UsageError, nearest
from .model import ImageInfo


def find(name: str | None) -> Path:
    """Return the image's path: as given, or by name in the images folder on scratch.

    Raises UsageError when none was asked for, NotFound with the nearest names when there is none.
    """
    if not name:
        raise UsageError("no image was given", remedy="--image horovod_cpu.sif")
    if "://" in name:
        raise UsageError(
            f"--image {name}: pull it once, so that not every rank does",
            remedy=f"apptainer pull my_image.sif {name}",
        )
    for path in (Path(name).expanduser(), places.images() / name):
        if path.exists():
            return path.absolute()
    return _missing(name)


def _missing(name: str) -> Path:
    folders = {Path(name).expanduser().parent, places.images()}
    there = [str(file) for folder in folders for file in folder.glob("*.sif")]
    near = nearest(Path(name).name, [Path(file).name for file in there])
    looked = ", ".join(sorted(str(folder) for folder in folders))
    raise NotFound(
        f"the image {name} does not exist",
        f"looked in {looked}\n{near}",
        "" if near else "make build-cpu",
    )


def read(path: Path) -> ImageInfo:
    """Return the image's labels; raise Refused for a file that is no whole SIF."""
    if path.is_dir():
        return ImageInfo(path, _sandbox_labels(path))
    try:
        labels = sif.labels(path)
    except (sif.SifError, OSError, ValueError) as error:
        raise Refused(
            f"{path} cannot be used as an image", str(error), "copy or build it again"
        ) from None
    return ImageInfo(path, labels if labels is not None else _ask_runtime(path))


def _sandbox_labels(path: Path) -> dict[str, str]:
    file = path / ".singularity.d" / "labels.json"
    if not (path / ".singularity.d").is_dir():
        raise Refused(f"{path} is a folder, but not a sandbox image", f"{file.parent} is missing")
    return dict(json.loads(file.read_text())) if file.is_file() else {}


def _ask_runtime(path: Path) -> dict[str, str]:
    """Let the container runtime read an image that is too old for its own table of labels."""
    from spython.main import get_client

    runtime = shutil.which("apptainer") or shutil.which("singularity")
    if runtime is None:
        return {}  # unknown, which the plan says, since the runtime may exist on the nodes only
    client = get_client(quiet=True)
    # spython 0.3.14 always calls `singularity`, which is absent where only apptainer is.
    client._init_command = lambda action, flags=None: [runtime, *(flags or []), action]
    answer: Any = client.inspect(str(path))
    if "attributes" not in answer:
        raise SystemFault(f"{runtime} inspect {path} failed", str(answer.get("message", "")))
    return dict(answer["attributes"].get("labels") or {})
