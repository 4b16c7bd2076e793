"""Reads the labels of an image's file or sandbox folder, without running anything in it."""

from __future__ import annotations

import json
from pathlib import Path

from ...core import sif, untrusted_folder
from ...core.errors import Refused
from ...core.files import DAMAGED
from ...core.model import ImageInfo


def read(path: Path) -> ImageInfo:
    """Return the image's labels; raise Refused for a file that is not a complete SIF file."""
    if path.is_dir():
        return ImageInfo(path, _sandbox_labels(path))
    try:
        labels, architecture = sif.labels(path), sif.architecture(sif.objects(path))
    except (sif.SifError, OSError, ValueError) as error:
        raise Refused(
            f"{path} cannot be used as an image",
            str(error),
            "copy or build it again",
            id="image-unusable",
        ) from None
    # None: made by Singularity before 3.6. The runtime would run a shell of the image for them.
    return ImageInfo(path, labels or {}, architecture=architecture or "")


def _sandbox_labels(path: Path) -> dict[str, str]:
    if not untrusted_folder.is_folder(path, ".singularity.d"):
        missing = f"{path / '.singularity.d'} is missing"
        raise Refused(
            f"{path} is a folder, but not a sandbox image", missing, id="image-not-sandbox"
        )
    try:
        with untrusted_folder.open_file(path, ".singularity.d/labels.json") as file:
            labels = json.loads(file.read(sif.LARGEST_METADATA))
        return {str(name): str(text) for name, text in labels.items()}
    except FileNotFoundError:
        return {}
    except (OSError, *DAMAGED) as error:
        # Not repeated: a link could lead to a private file.
        what = f"its .singularity.d/labels.json: {type(error).__name__}"
        raise Refused(
            f"{path} cannot be used as an image", what, id="image-labels-damaged"
        ) from None
