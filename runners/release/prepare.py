"""One builder's share of a release: an image of ours, proven, with what is written about it."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from containers.catalogue import IMAGES

from ..core import sif
from ..core.digest import sha256
from ..core.errors import NotVerified, Refused, UsageError
from ..core.progress import Progress
from ..images import digest_cache, inside, oci, store
from . import provenance
from .folder import OCI_ARCHIVE, SIF
from .record import BILL, LOCK, PROVENANCE

COMMIT = re.compile("[0-9a-f]{40}")
LABELS = "org.opencontainers.image."


@dataclass(frozen=True)
class Built:
    """An image of ours: its name, the project's version and revision, Go's architecture."""

    path: Path
    name: str
    version: str
    revision: str
    architecture: str

    def file(self, ending: str) -> str:
        return f"{self.name}-{self.version}-{self.architecture}.{ending}"


def find(path: Path) -> Built:
    """Return what an image says of itself; raise Refused for one that cannot be released."""
    labels = sif.labels(path) or {}
    version, revision = labels.get(f"{LABELS}version"), labels.get(f"{LABELS}revision")
    architecture = sif.architecture(sif.objects(path)) or ""
    name = path.stem.removesuffix(f".{architecture}")  # of an image for other machines
    if name not in {each.name for each in IMAGES.values()} or not version or not revision:
        raise Refused(f"{path} is not an image of this project", "its name, or its labels, are not")
    if not COMMIT.fullmatch(revision):
        raise Refused(
            f"{path} was not built from a commit", f"its revision is {revision}", "git stash"
        )
    return Built(path, name, version, revision, architecture)


def prepare(built: Built, builder: str, folder: Path, progress: Progress) -> None:
    """Prove the image and write SIF, OCI archive, lock, bill and provenance into `folder`.

    `builder` is who built it, as a URI. Raises NotVerified when the image's own test fails,
    UsageError for a folder that has it already, and a RunnerError; then nothing new is left.
    """
    if (folder / built.file(SIF)).exists():
        raise UsageError(f"{folder} has {built.file(SIF)} already", remedy="--output NEW")
    progress.begin("the image's own test: two ranks, each framework and controller")
    proof = inside.own_test(built.path)
    if proof.failure or not proof.agreed:
        raise NotVerified(f"{built.path} fails its own test", proof.failure)
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".new.", dir=folder) as work:
        _write(built, builder, Path(work), proof.agreed, progress)
        # The image last: with it, its documents are there.
        for path in sorted(Path(work).iterdir(), key=lambda each: each.name == built.file(SIF)):
            path.replace(folder / path.name)


def _write(built: Built, builder: str, work: Path, proof: str, progress: Progress) -> None:
    progress.begin(f"copying {built.path.name}")
    shutil.copyfile(built.path, work / built.file(SIF))
    digest = digest_cache.digest(built.path)
    bill, lock = inside.bill(built.path), _lock(built)
    (work / built.file(BILL)).write_text(bill, encoding="utf-8")
    (work / built.file(LOCK)).write_text(lock, encoding="utf-8")
    statement = provenance.statement(
        subject={built.file(SIF): digest},
        source=built.revision,
        version=built.version,
        image=built.name,
        builder=builder,
        finished=store.utc(sif.read(built.path)[0].created),
        lock=f"sha256:{sha256(work / built.file(LOCK))}",
        packages=_packages(json.loads(bill)),
        proof=proof,
    )
    line = json.dumps(statement, sort_keys=True) + "\n"
    (work / built.file(PROVENANCE)).write_text(line, encoding="utf-8")
    with oci.layout(built.path, progress) as made:
        oci.archive(made, built.name, work / built.file(OCI_ARCHIVE))


def _lock(built: Built) -> str:
    done = inside.run(built.path, ["cat", f"/opt/horovod/{built.name}.lock"], inside.SECONDS)
    if done.code:
        raise Refused(f"{built.path} carries no lock of its packages", done.err)
    return done.out


def _packages(bill: dict[str, Any]) -> list[str]:
    return [each["purl"] for each in bill["components"] if "purl" in each]
