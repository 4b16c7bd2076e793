"""What a dataset consists of: each file with its size and SHA-256, in `manifest.json`.

`fetch` writes it into the folder, `pack` beside the squashfs file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from ..core.digest import digest_of
from ..core.errors import Refused
from ..core.files import read_any_json, read_versioned, write_versioned
from ..core.progress import Progress

FILE = "manifest.json"
FORM = 1  # of the file; those without a number have it too
BESIDE = ".manifest.json"  # after the name of a squashfs file


@dataclass(frozen=True)
class File:
    """Size in bytes, and SHA-256 in hex."""

    size: int
    sha256: str


@dataclass(frozen=True)
class DatasetManifest:
    """A dataset's name and its files, by path below its folder with `/` between parts."""

    dataset: str
    files: dict[str, File]


def path_of(dataset: Path) -> Path:
    """Return where the manifest of a folder, or of a squashfs file, is."""
    return dataset / FILE if dataset.is_dir() else dataset.with_name(dataset.name + BESIDE)


def names(folder: Path) -> Iterator[str]:
    """Yield the files below a folder in order, without the manifest itself."""
    for path, below, files in os.walk(folder):
        below.sort()
        for name in sorted(files):
            relative = os.path.relpath(os.path.join(path, name), folder)
            if relative != FILE:
                yield relative


def of_file(path: Path, name: str, say: Progress) -> File:
    """Return the entry of a file, which people know by `name`; every byte is read."""
    digest = digest_of(path, name, say).partition(":")[2]
    return File(path.stat().st_size, digest)


def of_folder(folder: Path, dataset: str, say: Progress) -> DatasetManifest:
    """Return the manifest of what is in a folder; every byte is read."""
    return DatasetManifest(
        dataset, {name: of_file(folder / name, name, say) for name in names(folder)}
    )


def write(manifest: DatasetManifest, dataset: Path) -> None:
    """Write it atomically."""
    write_versioned(path_of(dataset), FORM, asdict(manifest))


def read(dataset: Path) -> DatasetManifest | None:
    """Return the manifest of a dataset, None where there is none; raise Refused for a faulty one.

    A `manifest.json` of somebody else's, without our keys, counts as none.
    """
    any_json = read_any_json(path_of(dataset))
    if not isinstance(any_json, dict) or not {"dataset", "files"} <= set(any_json):
        return None
    content = read_versioned(path_of(dataset), FORM) or {}
    try:
        files = {name: File(**facts) for name, facts in content["files"].items()}
        if outside := [name for name in files if name[:1] == "/" or ".." in name.split("/")]:
            raise ValueError(f"{outside[0]!r} is not below it")
    except (TypeError, AttributeError, ValueError) as error:
        raise Refused(
            f"{path_of(dataset)} is not a manifest", str(error), id="manifest-malformed"
        ) from None
    return DatasetManifest(content["dataset"], files)
