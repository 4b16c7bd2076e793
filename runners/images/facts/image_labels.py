"""Reads the labels of an image's file or sandbox folder, without running anything in it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from ...core import sif, untrusted_folder
from ...core.errors import Refused, SystemFault
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
            f"{path} cannot be used as an image", str(error), "copy or build it again"
        ) from None
    known = labels if labels is not None else _labels_by_runtime(path)
    return ImageInfo(path, known, architecture=architecture or "")


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
