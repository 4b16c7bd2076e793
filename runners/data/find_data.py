"""What `--data [NAME=]PATH` means: a folder, a squashfs file, or a name that stands for one.

A name is looked for among what `runner data fetch` has brought, then in the folders where the site
keeps shared datasets.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from ..core import places
from ..core.errors import NotFound, Refused, UsageError, close, nearest
from ..core.model import Dataset
from ..core.remedy import change, command
from ..core.site import Profile
from . import dataset_catalogue, pack

# How long files are counted: on a busy file system a large dataset takes minutes.
SECONDS, FILES = 3.0, 200_000
OURS = ("runs", "studies")  # folders that runner makes
SITES_OWN = "datasets"  # the key of a profile's `paths`


def all_of(
    texts: Iterable[str], profile: Profile | None, env: Mapping[str, str]
) -> tuple[Dataset, ...]:
    """Return the datasets of a job; of two with one name the later one counts.

    Raises UsageError for what contradicts itself, NotFound for what is not there, Refused for what
    cannot be used as it is.
    """
    datasets = {dataset.name: dataset for dataset in (one(text, profile, env) for text in texts)}
    if "" in datasets and len(datasets) > 1:
        others = ", ".join(name for name in datasets if name)
        data = [
            f"{dataset.name or dataset.path.stem}={dataset.path}" for dataset in datasets.values()
        ]
        raise UsageError(
            f"--data {datasets[''].path} uses all of /data, and {others} would be below it",
            remedy=change(data=data, leave_out=["data"]),
            id="data-over-data",
        )
    return tuple(datasets.values())


def one(text: str, profile: Profile | None, env: Mapping[str, str]) -> Dataset:
    """Return one dataset; the errors are those of `all_of`."""
    name, equals, path = text.partition("=")
    if not (equals and dataset_catalogue.PLAIN.fullmatch(name)):
        name, path = "", text
    if not path:
        raise UsageError(f"--data {text!r} is not [NAME=]PATH", id="data-malformed")
    return _looked_at(name, *dataset_path(path, profile, env))


def dataset_path(text: str, profile: Profile | None, env: Mapping[str, str]) -> tuple[Path, str]:
    """Return the path of what a path or a name stands for, and who says so, "" for a path."""
    path = Path(text).expanduser().absolute()
    if path.exists():
        return path, ""
    known = {} if "/" in text else names(profile, env)
    fits = [name for name in known if name.lower() == text.lower()]
    if not fits:
        raise _missing(text, path, known)
    return known[fits[0]]


def names(profile: Profile | None, env: Mapping[str, str]) -> dict[str, tuple[Path, str]]:
    """Return the names that stand for datasets here, each with its path and who says so."""
    shared = profile.folders(SITES_OWN, env) if profile else ()
    folders = [(folder, f"a dataset of {profile.name}") for folder in reversed(shared) if profile]
    folders.append((places.data(), "fetched or packed before"))
    datasets: dict[str, tuple[Path, str]] = {}
    for folder, why in folders:  # the later ones win: what is the user's own
        for path in _entries(folder):
            packed = path.suffix in pack.ENDINGS
            datasets[path.stem if packed else path.name] = (path, why)
    return datasets


def _entries(folder: Path) -> list[Path]:
    """Return the datasets of a folder; one that cannot be read has none to offer."""
    try:
        paths = sorted(folder.iterdir())
    except OSError:
        return []
    return [p for p in paths if p.name[0] != "." and (p.is_dir() or p.suffix in pack.ENDINGS)]


def _missing(text: str, path: Path, known: Iterable[str]) -> NotFound:
    message = f"the dataset {text} is neither a folder nor a squashfs file on this machine"
    if text in dataset_catalogue.shipped():
        return NotFound(
            message,
            "it has not been downloaded",
            change(first=f"runner data fetch {text}"),
            id="dataset-not-fetched",
        )
    beside = [p.name for p in _entries(path.parent)] if path.parent.is_dir() else []
    names = {*known, *dataset_catalogue.shipped()}
    # A folder that has about this name may be meant; all others are no datasets.
    near = {name for name in beside if name not in OURS and close(path.name, [name])}
    return NotFound(
        message,
        nearest(path.name, names | near),
        command("runner", "data", "fetch"),
        id="dataset-missing",
    )


def _looked_at(name: str, path: Path, why: str) -> Dataset:
    """Refuse what no trainer could read, before the queue does."""
    if not os.access(path, os.R_OK | (os.X_OK if path.is_dir() else 0)):
        raise Refused(
            f"you cannot read the dataset {path}",
            remedy=command("ls", "-ld", path),
            id="dataset-unreadable",
        )
    if path.is_dir():
        if not any(path.iterdir()):
            raise Refused(f"the dataset {path} is an empty folder", id="dataset-empty")
        return Dataset(name, path, origin=why)
    pack.require_whole_squashfs(path)
    return Dataset(name, path, squashfs=True, origin=why)


def measured(dataset: Dataset, seconds: float = SECONDS) -> Dataset:
    """Return it with `size` in bytes and `files`; with `at_least` where counting was given up."""
    if dataset.squashfs:
        return replace(dataset, size=dataset.path.stat().st_size, files=1)
    size = files = 0
    deadline = time.monotonic() + seconds
    for folder, _, names in os.walk(dataset.path, followlinks=True):
        for name in names:
            files += 1
            try:
                size += os.stat(os.path.join(folder, name)).st_size
            except FileNotFoundError:  # a dangling link
                continue
            if files >= FILES or time.monotonic() > deadline:
                return replace(dataset, size=size, files=files, at_least=True)
    return replace(dataset, size=size, files=files)
