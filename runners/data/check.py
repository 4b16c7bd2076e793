"""`runner data check`: a dataset against the checksums of its manifest, or the published ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..core.digest import digest_of
from ..core.errors import NotFound, Refused
from ..core.progress import Progress
from . import catalogue, manifest, pack, synth

# By files of which one tells the kind; MNIST may lie where torchvision puts it.
MNIST = (*synth.IDX_NAMES.values(), *(f"{name}.gz" for name in synth.IDX_NAMES.values()))
KINDS = {
    "mnist": ("mnist.npz", *MNIST, *(f"MNIST/raw/{name}" for name in MNIST)),
    "cifar10": (synth.CIFAR_FOLDER, "cifar-10-batches-py", "data_batch_1.bin", "data_batch_1"),
    "tokens": synth.TOKENS_FILES,
    "imagefolder": synth.IMAGE_PARTS,
}
NONE_KNOWN = "none are known"


@dataclass
class DatasetCheck:
    """Grows while a dataset is looked at. `kind` is "unknown" where nothing fits.

    `faults` are the files that are wrong, by their path below the dataset, each with what is wrong.
    """

    kind: str = "unknown"
    facts: dict[str, Any] = field(default_factory=dict)
    faults: list[tuple[str, str]] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        if self.faults:
            return "damaged"
        if self.facts.get("checksums") == NONE_KNOWN:
            return "not checked: there are no checksums to compare its files with"
        return "ok: all files have their checksums"


def examine(path: Path, say: Progress) -> DatasetCheck:
    """Return what there is to say of a folder or a squashfs file; raise NotFound without one."""
    if path.is_dir():
        return _folder(path, say)
    if path.exists():
        return _squashfs(path, say)
    raise NotFound(f"there is no {path}")


def _squashfs(path: Path, say: Progress) -> DatasetCheck:
    report = DatasetCheck("squashfs")
    try:
        facts = pack.read_squashfs(path)
    except Refused as error:
        why = error.what + (f": {error.evidence}" if error.evidence else "")
        report.faults.append((path.name, why))
        return report
    report.facts["checksums"] = NONE_KNOWN
    report.facts["squashfs"] = f"{facts.inodes} inodes, {facts.size} bytes, {facts.compression}"
    if known := manifest.read(path):
        report.facts["checksums"] = f"of {manifest.path_of(path).name}"
        _compare(path.parent, known.files, report, say)
    return report


def _folder(path: Path, say: Progress) -> DatasetCheck:
    names = list(manifest.names(path))
    fitting = (kind for kind, files in KINDS.items() if any((path / f).exists() for f in files))
    report = DatasetCheck(next(fitting, "unknown"), {"files": len(names), "checksums": NONE_KNOWN})
    if known := manifest.read(path):
        report.facts["checksums"] = f"of {manifest.FILE}"
        _compare(path, known.files, report, say)
        unknown = set(names) - set(known.files)
        report.faults += [(name, f"not in {manifest.FILE}") for name in unknown]
    elif published := list(_published(path, say)):  # MNIST and Fashion-MNIST have the same names
        nearest = min(published, key=lambda found: len(found.faults))
        report.facts.update(nearest.facts)
        report.faults += nearest.faults
    return report


def _published(folder: Path, say: Progress) -> Iterator[DatasetCheck]:
    """Yield a report for each dataset of the catalogue of which a file is there."""
    for entry in catalogue.shipped().values():
        files = {s.name: manifest.File(s.size or 0, s.sha256) for s in entry.files}
        if any((folder / name).is_file() for name in files):
            report = DatasetCheck(facts={"checksums": f"of {entry.name}, as published"})
            _compare(folder, files, report, say)
            yield report


def _compare(
    folder: Path, files: dict[str, manifest.File], report: DatasetCheck, say: Progress
) -> None:
    for name, known in files.items():
        path = folder / name
        if not path.is_file():
            report.faults.append((name, "missing"))
        elif path.stat().st_size != known.size:
            what = f"{path.stat().st_size} bytes instead of {known.size}"
            report.faults.append((name, what))
        elif digest_of(path, name, say) != f"sha256:{known.sha256}":
            report.faults.append((name, f"its SHA-256 is not {known.sha256}"))
