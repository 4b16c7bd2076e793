"""Brings a public dataset to scratch: once, on the login node, whole and checked, or not at all.

What is half there waits in `.fetch/NAME` beside the datasets, so that the next try goes on where
this one stopped. A dataset gets its name by one rename.
"""

from __future__ import annotations

import gzip
import os
import shutil
import tarfile
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.error import HTTPError

try:
    from lzma import LZMAError
except ImportError:  # a Python that was built without it cannot read such files
    LZMAError = EOFError  # type: ignore[misc, assignment]

from ..core import disk_space, places
from ..core.errors import NotVerified, Refused, RunnerError, SystemFault
from ..core.files import DAMAGED
from ..core.locks import exclusive
from ..core.progress import Progress
from ..registry import download
from . import manifest
from .dataset_catalogue import CatalogueEntry, DatasetFile

# What reading a malformed tar file, compressed or not, ends with.
TAR_FAULTS = (tarfile.TarError, zlib.error, LZMAError, EOFError, *DAMAGED)
UNPACKED = 1.1  # an archive's content is taken to be this much larger, where it is compressed


@dataclass(frozen=True)
class Fetched:
    """A dataset on disk; `fresh` when it was not there before."""

    path: Path
    files: int
    size: int
    fresh: bool


def fetch(
    entry: CatalogueEntry, mirrors: Sequence[str], env: Mapping[str, str], say: Progress
) -> Fetched:
    """Return the dataset, downloaded if it is not there.

    `mirrors` are addresses of folders to take the files from instead. Raises Refused among the
    ranks of a job and where the disk is too small, NotVerified for files that are not what they
    should be, SystemFault when no server has them.
    """
    _refuse_in_a_rank(entry, env)
    target = places.data() / entry.name
    with exclusive(places.data() / ".fetch" / f"{entry.name}.lock", say, f"fetches {entry.name}"):
        if target.exists():
            return _there(target, fresh=False)
        work = _workplace(entry)
        _check_room(entry, work)
        for source in entry.files:
            _bring(source, mirrors, work, say)
        _finish(entry, work, target, say)
        return _there(target, fresh=True)


def _refuse_in_a_rank(entry: CatalogueEntry, env: Mapping[str, str]) -> None:
    # Of srun; a batch script, which runs once, has SLURM_PROCID and SLURM_NTASKS too.
    tasks = env.get("SLURM_STEP_NUM_TASKS", "")
    if tasks.isdigit() and int(tasks) > 1:
        raise Refused(
            f"this is one of {tasks} ranks, and each would fetch {entry.name}",
            f"SLURM_STEP_NUM_TASKS is {tasks}",
            f"runner data fetch {entry.name}, once, on the login node",
            id="fetch-in-ranks",
        )


def _workplace(entry: CatalogueEntry) -> Path:
    """Return the folder of what is half there, `files` for downloads."""
    work = places.data() / ".fetch" / entry.name
    with disk_space.writing(work):
        (work / "files").mkdir(parents=True, exist_ok=True)
    return work


def _check_room(entry: CatalogueEntry, work: Path) -> None:
    """Archives take their room twice: packed and unpacked."""
    needed = sum(int((s.size or 0) * (1 + UNPACKED if s.unpack else 1)) for s in entry.files)
    fetched = sum(path.stat().st_size for path in (work / "files").iterdir())
    disk_space.check(work, max(0, needed - fetched), entry.name)


def _bring(source: DatasetFile, mirrors: Sequence[str], work: Path, say: Progress) -> None:
    """Have one file in `files`, whole, from the first server that gives it."""
    done = work / "files" / source.name
    if done.exists():
        return
    urls = [f"{mirror.rstrip('/')}/{source.name}" for mirror in mirrors] or list(source.urls)
    failed: list[RunnerError] = []
    for url in urls:
        try:
            _one(url, source, done, say)
            return
        except RunnerError as error:
            failed.append(error)
            if len(urls) > len(failed):
                say.say(f"{error.what}; trying the next address")
    raise _all_failed(source, failed)


def _one(url: str, source: DatasetFile, done: Path, say: Progress) -> None:
    """Download from one address; a wrong resumed download starts again."""
    part = done.with_name(done.name + ".part")
    resumed = part.exists()
    try:
        digest = download.from_web(url, url, part, source.size, say)
    except HTTPError as error:
        raise SystemFault(
            f"{url} cannot be had", f"{error.code} {error.reason}", id="dataset-not-served"
        ) from None
    if digest == f"sha256:{source.sha256.lower()}":
        part.replace(done)
        return
    size = part.stat().st_size
    download.forget(part)
    if not resumed:
        evidence = f"{url}\nwanted sha256:{source.sha256}\ncame   {digest}, {size} bytes"
        raise NotVerified(
            f"{source.name} is not what it should be; removed", evidence, id="dataset-digest"
        )
    say.say(f"{source.name}: the part that was here does not fit; from the beginning")
    _one(url, source, done, say)


def _all_failed(source: DatasetFile, failed: list[RunnerError]) -> RunnerError:
    if len(failed) == 1:
        return failed[0]
    wrong = [error for error in failed if isinstance(error, NotVerified)]
    kind = type(wrong[0]) if wrong else SystemFault
    lines = "\n".join(str(error) for error in failed)
    what, remedy = f"no address gave {source.name}", "--mirror URL, of a folder that has it"
    return kind(what, lines, remedy, id="dataset-at-no-address")


def _finish(entry: CatalogueEntry, work: Path, target: Path, say: Progress) -> None:
    """Unpack, write down what is there, and give it its name."""
    made = work / "dataset"
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    try:
        with disk_space.writing(target):
            for source in entry.files:
                packed = work / "files" / source.name
                for place in source.kept:
                    (made / place).parent.mkdir(parents=True, exist_ok=True)
                    os.link(packed, made / place)
                if source.unpack:
                    say.begin(f"unpacking {source.name}")
                    _unpack_into(packed, [made / folder for folder in source.unpack])
            manifest.write(manifest.of_folder(made, entry.name, say), made)
            made.rename(target)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    shutil.rmtree(work)


def _there(path: Path, fresh: bool) -> Fetched:
    known = manifest.read(path)
    files = known.files if known else {}
    return Fetched(path, len(files), sum(file.size for file in files.values()), fresh)


def _unpack_into(packed: Path, folders: Sequence[Path]) -> None:
    """Unpack once, and put links to the files into each of the folders."""
    content = packed.with_name(f"{packed.name}.content")
    shutil.rmtree(content, ignore_errors=True)
    content.mkdir()
    if packed.name.endswith(".gz") and not packed.name.endswith(".tar.gz"):
        _gunzip(packed, content / packed.name[: -len(".gz")])
    else:
        unpack(packed, content)
    for folder in folders:
        shutil.copytree(content, folder, copy_function=os.link, dirs_exist_ok=True)


def _gunzip(path: Path, target: Path) -> None:
    try:
        with gzip.open(path) as source, target.open("xb") as file:
            shutil.copyfileobj(source, file, 1 << 20)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise Refused(
            f"{path.name} is no whole gzip file", str(error), id="gzip-incomplete"
        ) from None


def unpack(path: Path, folder: Path) -> None:
    """Unpack a tar file, compressed or not, into `folder`, files with plain modes.

    What would leave the folder, or is no file or folder, is refused before anything is written:
    Python's own `filter="data"` came with 3.12 and late patches of 3.9 to 3.11. Raises Refused for
    a tar file that is hostile or damaged, SystemFault when the disk is full.
    """
    try:
        with tarfile.open(path) as tar:
            members = tar.getmembers()
            disk_space.check(folder, sum(member.size for member in members), path.name)
            for member in members:
                _refuse_hostile(member, path)
            _refuse_twice(members, path)
            for member in members:
                _extract(tar, member, folder)
    except TAR_FAULTS as error:
        raise Refused(
            f"{path.name} is not a complete tar file", str(error), id="tar-damaged"
        ) from None


def _refuse_hostile(member: tarfile.TarInfo, path: Path) -> None:
    parts = PurePosixPath(member.name).parts
    if member.name.startswith("/") or ".." in parts or "\0" in member.name:
        raise Refused(
            f"{path.name} would write outside of its folder", member.name, id="archive-outside"
        )
    if not (member.isreg() or member.isdir()):
        kind = "a link" if member.issym() or member.islnk() else "a device or pipe"
        raise Refused(
            f"{path.name} holds {kind}",
            f"{member.name} {member.linkname}".strip(),
            id="archive-special-file",
        )


def _refuse_twice(members: Sequence[tarfile.TarInfo], path: Path) -> None:
    """Refuse what cannot be in one folder: a file's name twice, or a file where a folder is."""
    files = Counter(PurePosixPath(member.name) for member in members if member.isreg())
    folders = {
        PurePosixPath(),
        *(PurePosixPath(member.name) for member in members if member.isdir()),
    }
    folders = folders.union(*(name.parents for name in (*files, *folders)))
    for name, times in files.items():
        if times > 1 or name in folders:
            raise Refused(f"{path.name} contains a name twice", str(name), id="archive-name-twice")


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    target = folder / member.name
    if member.isdir():
        target.mkdir(parents=True, exist_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    source = tar.extractfile(member)
    assert source is not None  # it is a regular file
    with source, disk_space.writing(target), target.open("xb") as file:
        shutil.copyfileobj(source, file, 1 << 20)
    os.chmod(target, 0o644)
    os.utime(target, (member.mtime, member.mtime))
