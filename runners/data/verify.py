"""`runner data check`: a dataset against its own headers, and against known checksums."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..core import download, shell
from ..core.errors import NotFound, Refused
from ..core.progress import Progress
from . import catalogue, check, manifest, pack
from .check import Report
from .pack import LIBEXEC

SQUASHFUSE = ("squashfuse_ll", "squashfuse")
UNMOUNT = ("fusermount3", "fusermount")


def examine(path: Path, say: Progress) -> Report:
    """Return what there is to say of a folder or a squashfs file.

    Raises NotFound for a path that is not there, Refused for a file that is no squashfs file or
    that cannot be mounted here.
    """
    report = Report()
    if path.is_dir():
        _checksums(path, report, say)
        check.folder(path, report)
    elif path.exists():
        _squashfs(path, report, say)
    else:
        raise NotFound(f"there is no {path}")
    return report


def _squashfs(path: Path, report: Report, say: Progress) -> None:
    try:
        facts = pack.read_squashfs(path)
    except Refused as error:
        report.fault(path.name, error.what + (f": {error.evidence}" if error.evidence else ""))
        return
    report.facts["squashfs"] = f"{facts.inodes} inodes, {facts.size} bytes, {facts.compression}"
    known = manifest.read(path)
    if known:
        _compare(path.parent, known.files, report, say)
        report.facts["checksums"] = f"of {manifest.path_of(path).name}"
    if report.faults:
        return  # a damaged file system is not to be mounted
    with _mounted(path) as folder:
        check.folder(folder, report)


def _checksums(folder: Path, report: Report, say: Progress) -> None:
    known = manifest.read(folder)
    if known:
        report.facts["checksums"] = f"of {manifest.FILE}"
        _compare(folder, known.files, report, say)
        for name in set(manifest.names(folder)) - set(known.files):
            report.fault(name, f"not in {manifest.FILE}")
        return
    published = list(_published(folder, say))
    if published:  # MNIST and Fashion-MNIST have the same names
        nearest = min(published, key=lambda found: len(found.faults))
        report.facts.update(nearest.facts)
        report.faults += nearest.faults


def _published(folder: Path, say: Progress) -> Iterator[Report]:
    """Yield a report for each dataset of the catalogue whose files are there."""
    for entry in catalogue.shipped().values():
        files = {s.name: manifest.File(s.size or 0, s.sha256) for s in entry.files}
        if all((folder / name).is_file() for name in files):
            report = Report(facts={"checksums": f"of {entry.name}, as published"})
            _compare(folder, files, report, say)
            yield report


def _compare(folder: Path, files: dict[str, manifest.File], report: Report, say: Progress) -> None:
    for name, known in files.items():
        path = folder / name
        if not path.is_file():
            report.fault(name, "missing")
        elif path.stat().st_size != known.size:
            report.fault(name, f"{path.stat().st_size} bytes instead of {known.size}")
        elif download.digest_of(path, name, say) != f"sha256:{known.sha256}":
            report.fault(name, f"its SHA-256 is not {known.sha256}")


@contextmanager
def _mounted(path: Path) -> Iterator[Path]:
    """Yield a squashfs file as a folder, without root; raise Refused where it cannot be mounted."""
    program = _first(SQUASHFUSE)
    folder = Path(tempfile.mkdtemp(prefix="runner-data-"))
    try:
        done = shell.run([program, str(path), str(folder)])
        if done.code:
            raise Refused(f"cannot mount {path}", (done.err or done.out).strip())
        try:
            yield folder
        finally:
            shell.run([_first(UNMOUNT), "-u", str(folder)])
    finally:
        folder.rmdir()


def _first(names: tuple[str, ...]) -> str:
    folders = os.pathsep.join([os.environ.get("PATH", os.defpath), *LIBEXEC])
    programs = [path for path in (shutil.which(name, path=folders) for name in names) if path]
    if not programs:
        raise Refused(
            f"{' and '.join(names)} are not on this machine",
            "to look into a squashfs file without root",
            "unsquashfs -d DIR FILE, then runner data check DIR",
        )
    return programs[0]
