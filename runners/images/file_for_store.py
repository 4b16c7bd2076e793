"""Refuses an image's file for a runtime that takes the names of images in a store of its own."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ..core.errors import Refused, RunnerError
from ..core.model import RuntimeName
from ..core.remedy import Remedy, change
from ..runtimes import RUNTIMES, STORES
from . import expected, local_image
from .local_image import ENDINGS

REGISTRY, TAG = "REGISTRY", "1"  # for the user to fill in, and to choose
TITLES = {RuntimeName.SHIFTER: "Shifter"}
PREFIXES = {RuntimeName.SHIFTER: "docker:"}  # before an image's name, to pull it too


def check(name: str | None, runtime: RuntimeName, others: Iterable[RuntimeName]) -> None:
    """Raise Refused for a SIF file; `others` are the runtimes of the site that take one."""
    if runtime not in STORES or not name or Path(name).suffix not in ENDINGS:
        return
    title = TITLES.get(runtime, runtime)
    runs = [change(runtime=fitting) for fitting in tuple(others)[:1]]
    raise Refused(
        f"{name} is a SIF file, and {title} runs images of its own store, by their names",
        "push it as an OCI image, for the store",
        [*runs, _stored(name, runtime)],
        id="image-file-for-store",
    )


def _stored(name: str, runtime: RuntimeName) -> Remedy:
    """Return the launch of the same image from the store, and first what brings it there."""
    stem = Path(name).stem.lower()
    build = [] if _is_here(name) else [remedy.text for remedy in expected.commands(name)[-1:]]
    stored = f"{REGISTRY}/{stem}:{TAG}"
    image = PREFIXES.get(runtime, "") + stored
    moved = [f"runner push {name} docker://{stored}", f"{RUNTIMES[runtime].pull} {image}"]
    return change(image=image, first=" && ".join([*build, *moved]))


def _is_here(name: str) -> bool:
    try:
        return bool(local_image.find(name))
    except RunnerError:
        return False
