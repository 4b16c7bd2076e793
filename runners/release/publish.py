"""Makes a release of what builders prepared: compared, signed, put where it can be pulled from."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from ..core import atomic, disk_space, places
from ..core.digest import sha256
from ..core.errors import Refused
from ..core.progress import Progress
from ..images import prebuilt
from . import compare, pgp, registry_source, registry_target
from . import folder as folders
from . import record as records
from .compare import Prepared
from .folder import OCI_ARCHIVE, SIF, Folder
from .read import Release
from .record import DOCUMENTS, PROVENANCE, Record
from .registry_source import InRegistry


def publish(
    prepared: Sequence[Path], target: Folder | InRegistry, key: str, progress: Progress
) -> Record:
    """Publish what two builders made alike, signed by `key`; return the release.

    Nothing is put anywhere before all was compared and signed. Raises a RunnerError.
    """
    record, images = compare.release(prepared, progress)
    with _staged(prepared[0], record.version) as stage:
        record = _gather(record, images, stage)
        file = stage.path / prebuilt.file_of(record.version)
        file.write_bytes(records.written(record))
        pgp.sign(file, key)
        put(record, stage, target, progress)
    return record


def _gather(record: Record, images: dict[str, list[Prepared]], stage: Folder) -> Record:
    """Link the first builder's files into the stage, and join what each says of its build."""
    published = []
    for image, several in zip(record.images, images.values()):
        one = several[0]
        for ending in (SIF, OCI_ARCHIVE, *image.documents):
            stage.file(record, image, ending).symlink_to(one.file(ending).absolute())
        joined = stage.file(record, image, PROVENANCE)
        joined.write_bytes(b"".join(each.file(PROVENANCE).read_bytes() for each in several))
        documents = {**image.documents, PROVENANCE: f"sha256:{sha256(joined)}"}
        published.append(replace(image, documents=documents))
    return replace(record, images=tuple(published))


def put(record: Record, files: Folder, target: Folder | InRegistry, progress: Progress) -> None:
    """Check a release's files and put them there, the record last. Raises a RunnerError."""
    folders.check(files, record, progress)
    if isinstance(target, InRegistry):
        registry_target.put(target, record, files, progress)
    else:
        _put_in_folder(record, files, target, progress)


def _put_in_folder(record: Record, files: Folder, target: Folder, progress: Progress) -> None:
    name = prebuilt.file_of(record.version)
    endings = (SIF, OCI_ARCHIVE, *DOCUMENTS)
    names = [record.file(image, ending) for image in record.images for ending in endings]
    names += [f"{name}.asc", name]
    try:
        target.path.mkdir(parents=True, exist_ok=True)
        for each in names:
            progress.begin(f"writing {each}")
            part = target.path / f".{each}.part"
            try:
                shutil.copyfile(files.path / each, part)
                part.chmod(0o644)
                part.replace(target.path / each)
            finally:
                part.unlink(missing_ok=True)
    except OSError as error:
        raise disk_space.fault(target.path / "file", error) from None


def mirror(release: Release, target: Folder | InRegistry, progress: Progress) -> None:
    """Copy a verified release to another place, with its signature; to a folder also with its key.

    Raises a RunnerError.
    """
    if release.source.text == target.text:
        raise Refused(f"{target.text} is the source itself")
    _mirror(release, target, progress)
    if isinstance(target, Folder):
        atomic.write_text(target.path / prebuilt.KEY_FILE, release.key)


def _mirror(release: Release, target: Folder | InRegistry, progress: Progress) -> None:
    record, source = release.record, release.source
    if isinstance(source, Folder):
        put(record, source, target, progress)
        return
    near = target.path if isinstance(target, Folder) else places.images()
    with _staged(near, record.version) as stage:
        registry_source.bring(source, record, stage, progress)
        name = prebuilt.file_of(record.version)
        (stage.path / name).write_bytes(release.raw)
        (stage.path / f"{name}.asc").write_bytes(release.signature)
        put(record, stage, target, progress)


@contextmanager
def _staged(near: Path, version: str) -> Iterator[Folder]:
    """Yield a new folder in `near`; gone in the end."""
    try:
        near.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".release-{version}.", dir=near) as stage:
            yield Folder(Path(stage))
    except OSError as error:
        raise disk_space.fault(near / "release", error) from None
