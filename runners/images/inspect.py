"""The facts of an image that matter to who runs it, each with where it comes from."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Callable

from ..core import sif, trust
from ..core.errors import RunnerError
from ..core.model import ImageInfo
from ..core.text import utc
from .facts import digest_cache, environment_facts, image_labels, probe_image

# Names are those of our labels; `containers/horovod_image/labels.py` writes them.
SOFTWARE = (
    "horovod.version",
    "horovod.frameworks",
    "horovod.controllers",
    "horovod.operations",
    "torch.version",
    "tensorflow.version",
    "python.version",
    "mpi.flavour",
    "mpi.version",
    "pmi.client",
    "pmix.version",
    "cuda.version",
    "nccl.version",
    "glibc.version",
    "recipes",
    "architecture",
)
# What some images need of a node: ours for GPUs, those with a Horovod of ours.
NEEDS = ("cpu.level", "cuda.driver.minimum", "cuda.capabilities", "cudnn.version")
# Shown where they are found: MPICH's device, a driver's library of the image's own, RDMA libraries.
IF_FOUND = ("mpi.device", "cuda.driver.library", "rdma.libraries")
HOROVOD_LABEL = "horovod.version"  # our images have it
CREATED = "org.opencontainers.image.created"
LABELS = ("org.opencontainers.image.version", "org.opencontainers.image.revision")
LABEL, PROBED, FILE, UNKNOWN = "label", "probed", "file", "unknown"


@dataclass(frozen=True)
class ImageFact:
    """A value, and where it comes from: label, probed, file; or unknown, which is both."""

    value: str | int
    source: str


NOT_KNOWN = ImageFact(UNKNOWN, UNKNOWN)


@dataclass(frozen=True)
class Inspection:
    """The facts by name; `problem` says why the image could not be looked into."""

    facts: dict[str, ImageFact]
    problem: RunnerError | None = None


def inspect(path: Path) -> Inspection:
    """Return the facts of an image or folder, looking into it when it is not ours.

    Raises Refused for an incomplete SIF file, SystemFault when it cannot be read, UsageError
    for an environment of another user that is not trusted.
    """
    ours = environment_facts.is_one(path)
    if ours:
        trust.check(path / "bin", os.environ)  # its Python runs outside of any container
    labels = environment_facts.read_labels(path) if ours else image_labels.read(path).labels
    facts = {**_of_file(path), **_created(path, labels)}
    facts.update({name: ImageFact(labels[name], LABEL) for name in LABELS if name in labels})
    inside, problem = {}, None
    try:
        inside = {} if HOROVOD_LABEL in labels else probe(path)
    except RunnerError as error:
        problem = error
    for name in SOFTWARE:
        facts[name] = _known(name, labels, inside)
    facts.update({name: ImageFact(inside[name], PROBED) for name in IF_FOUND if name in inside})
    facts.update({name: ImageFact(labels[name], LABEL) for name in NEEDS if name in labels})
    if facts["architecture"] == NOT_KNOWN and path.is_file():
        facts["architecture"] = ImageFact(sif.architecture(sif.objects(path)) or UNKNOWN, FILE)
    return Inspection(facts, problem)


def _known(name: str, labels: dict[str, str], inside: dict[str, str]) -> ImageFact:
    if name in labels:
        return ImageFact(labels[name], LABEL)
    if name == "nccl.version" and labels.get("cuda.version") == "none":
        return ImageFact("none", LABEL)  # our CPU image has no label for what it cannot have
    if name == "pmi.client" and labels.get("pmix.version", "none") != "none":
        return ImageFact("pmix", LABEL)  # the MPI of our images is linked with their PMIx
    return ImageFact(inside[name], PROBED) if name in inside else NOT_KNOWN


def probe(path: Path) -> dict[str, str]:
    """Return what is inside, remembered by the file's digest; a sandbox is looked into each time.

    Raises as `probe_image.versions` does.
    """
    if environment_facts.is_one(path):
        return environment_facts.facts(path)
    if path.is_dir():
        return probe_image.everything(path)
    name = f"{digest_cache.digest(path)}-{probe_image.key()}"
    return digest_cache.content(name, lambda: probe_image.everything(path))


def _of_file(path: Path) -> dict[str, ImageFact]:
    if path.is_dir():
        return {"format": ImageFact("folder", FILE), "signed": ImageFact("no", FILE)}
    return {
        "format": ImageFact("SIF", FILE),
        "size": ImageFact(path.stat().st_size, FILE),
        "digest": ImageFact(digest_cache.digest(path), FILE),
        # Of an image that `runner build` made this is part of the digest of what is in it, which a
        # signature does not change; the runtime's own builds take it at random.
        "id": ImageFact(str(uuid.UUID(bytes=sif.read(path)[0].id)), FILE),
        "signed": ImageFact("yes" if sif.is_signed(path) else "no", FILE),
    }


def _created(path: Path, labels: dict[str, str]) -> dict[str, ImageFact]:
    if CREATED in labels:
        return {"created": ImageFact(labels[CREATED], LABEL)}
    seconds = 0 if path.is_dir() else sif.read(path)[0].created
    return {"created": ImageFact(utc(seconds), FILE) if seconds else NOT_KNOWN}


def inspected(image: ImageInfo, say: Callable[[str], None]) -> ImageInfo:
    """Return an image with what looking into it finds; what went wrong is its `problem`, no error.

    `say` is told when this will take long, which is the first time for a file.
    """
    try:
        if environment_facts.is_one(image.path):
            if not environment_facts.known(image.path):
                say(f"inspecting {image.path}")
        elif image.path.is_dir() or not digest_cache.recall(image.path):
            say(f"inspecting {image.path.name}, which has no labels of this project")
        return replace(image, inspected=probe(image.path))
    except RunnerError as error:
        return replace(image, problem=error.diagnosis)
