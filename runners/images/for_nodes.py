"""Of an image that there is for two kinds of machines, the one that is for the job's nodes."""

from __future__ import annotations

from pathlib import Path

from ..core.architecture import WORDS
from ..core.errors import RunnerError
from ..core.model import ImageInfo
from . import local


def chosen(name: str | None, image: ImageInfo, wanted: str) -> tuple[ImageInfo, str]:
    """Return the image of this name for nodes of an architecture, and why it is another one.

    `horovod_cpu.sif` and `horovod_cpu.arm64.sif` are the same image. Where the other is not there,
    or is not for these nodes, the image stays as it was asked for, without a reason.
    """
    there = image.architecture
    if not name or "://" in name or not wanted or there in ("", wanted):
        return image, ""
    for other in _others(Path(name), wanted):
        try:
            found = local.on_disk(str(other))
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
