"""The bill of materials that an image carries, taken out of it."""

from __future__ import annotations

from pathlib import Path

from containers import atomic

from ..core.errors import NotFound, SystemFault
from . import isolated_exec

PLACE = "/opt/horovod/sbom.cdx.json"  # written there by containers/horovod_image/sbom.py
SECONDS = 60


def read(image: Path) -> str:
    """Return the bill, CycloneDX in JSON; raise NotFound for an image that carries none."""
    done = isolated_exec.run(image, ["cat", PLACE], SECONDS)
    if done.code:
        raise NotFound(f"{image} carries no bill of materials", done.err)
    return done.out


def beside(image: Path) -> Path:
    """Return where the bill of an image lies: NAME.cdx.json beside NAME.sif."""
    return image.with_suffix(".cdx.json")


def extract(image: Path) -> Path:
    """Write the bill beside the image, by write-then-rename, and return its path.

    Raises NotFound as `read` does, SystemFault when it cannot be written.
    """
    text, target = read(image), beside(image)
    try:
        atomic.write_text(target, text)
    except OSError as error:
        raise SystemFault(f"cannot write {target}", str(error)) from None
    return target
