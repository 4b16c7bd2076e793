"""Prebuilt images: `cpu` and `gpu` stand for those of this version at `[images] source`.

They are SOURCE/horovod_cpu:VERSION-ARCHITECTURE, SIF files in a registry, the architecture in the
words of Go: horovod_cpu:0.1.0-amd64. A tag for each, since an image is pushed where it was built.
"""

from __future__ import annotations

from collections.abc import Mapping

from containers.catalogue import IMAGES

from .. import __version__
from ..core.errors import NotFound, UsageError
from ..core.toml_check import check
from ..settings import config
from . import reference
from .reference import Reference

VARIABLE = "RUNNER_IMAGES_SOURCE"


def source(env: Mapping[str, str]) -> str:
    """Return where prebuilt images are, "" for nowhere: the variable, the project's file, yours.

    Raises UsageError for what is no oras:// address of a repository's folder.
    """
    found = [(origin, _checked(origin, table)) for origin, table in config.tables(env, "images")]
    found += [(VARIABLE, env.get(VARIABLE, ""))]
    where, text = next((each for each in reversed(found) if each[1]), ("", ""))
    if text and not text.startswith("oras://"):
        raise UsageError(f"{where}: {text!r} is no source of images", remedy="oras://HOST/FOLDER")
    return text.rstrip("/")


def _checked(origin: str, table: dict[str, str]) -> str:
    check(origin, {"source": str}, table)
    return table.get("source", "")


def image(short: str, arch: str, env: Mapping[str, str]) -> Reference:
    """Return the image that `cpu` or `gpu` means here; NotFound where there is no source."""
    place = source(env)
    if not place:
        raise NotFound(
            f"no source of prebuilt images is set, and so there is no image {short!r}",
            f'[images] source = "oras://HOST/FOLDER" in runner.toml, or {VARIABLE}',
            f"runner build {short}",
        )
    return reference.parse(f"{place}/{IMAGES[short].name}:{__version__}-{arch}")


def remedy(name: str, env: Mapping[str, str]) -> str:
    """Return the command that brings a missing image: one of ours by its name, else the CPU one."""
    short = next((each.short for each in IMAGES.values() if name == f"{each.name}.sif"), "cpu")
    return f"runner pull {short}" if source(env) else f"runner build {short}"
