"""Images that are no files: names in a runtime's own store, and folders of environments."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ..core.errors import NotFound, NotVerified, UsageError
from ..core.model import ImageInfo
from . import environment
from .policy import Policy

STORES = {"shifter": "shifterimg pull", "podman-hpc": "podman-hpc pull"}


def image(name: str | None, runtime: str, policies: Iterable[Policy]) -> ImageInfo:
    """Return what `name` means to a runtime that takes no image files; nothing is pulled.

    Raises NotVerified under a policy, which only an image file can meet.
    """
    if not name:
        what = "a folder" if runtime == "none" else "a name"
        raise UsageError(f"no image was given; for --runtime {runtime} it is {what}")
    for rules in policies:
        if rules.words():
            what = f"--runtime {runtime} has no image file, which the policy could allow"
            raise NotVerified(what, f"{rules.origin} wants: {rules.words()}")
    return _folder(name) if runtime == "none" else _stored(name, runtime)


def _folder(name: str) -> ImageInfo:
    path = Path(name).expanduser().absolute()
    if not environment.is_one(path):
        raise NotFound(
            f"--runtime none: {name} is not the folder of a virtual or conda environment",
            f"{path / 'bin' / 'python'} is not there",
            "python3 -m venv FOLDER, on a file system that the nodes see",
        )
    return ImageInfo(path)


def _stored(name: str, runtime: str) -> ImageInfo:
    """Return an image by its name; only the runtime on a node can look into it."""
    plain = name.replace("docker://", "docker:" if runtime == "shifter" else "")
    if "://" in plain or any(char.isspace() for char in plain):
        raise UsageError(
            f"{name} is not a name in the image store of {runtime}",
            remedy=f"{STORES[runtime]} NAME:TAG, then --image NAME:TAG",
        )
    problem = f"it is in the store of {runtime}, and not looked into before the job"
    return ImageInfo(Path(plain), problem=problem)
