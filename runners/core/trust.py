"""Whether a file that nobody named on the command line may be read: runner.toml, images.lock, ...

Trusted are files of the user, of root, and all below a folder that the user trusted once
(`runner config trust DIR`). Who may write into a folder above can put another file there, but none
with an owner of his choice: above a file only folders matter that everybody may write.
"""

from __future__ import annotations

import errno
import os
import stat
import warnings
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from . import disk_space, files, places
from .errors import UsageError
from .remedy import command

FORM = 1
MAX_LINKS = 40  # of one path, as Linux has it (path_resolution(7))
LARGEST_FILE = 16 << 20


class Untrusted(UsageError):
    """Other users could have written a file that nobody named."""

    id = "untrusted"


@dataclass(frozen=True)
class PathStep:
    """One folder, link or file on the way to a file."""

    path: Path
    status: os.stat_result


def read(path: Path, env: Mapping[str, str], named: Path | None = None) -> bytes:
    """Return a file's content; raise UsageError where somebody else could have written it.

    `named` is a folder that the user's environment names, which trusts its owner too. Raises
    OSError when the file cannot be read.
    """
    steps = list(_steps(Path.cwd() / path))
    owners = {os.geteuid(), 0} | ({named.stat().st_uid} if named else set())
    trusted = folders(env)
    _check(path, steps, owners, trusted)
    # What was checked is what is read: no link, and no pipe, on which opening would wait.
    file = os.open(steps[-1].path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(file, "rb") as opened:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        if not os.path.samestat(status, steps[-1].status):  # a pull has just replaced images.lock
            _check(path, [*steps[:-1], PathStep(steps[-1].path, status)], owners, trusted)
        content = opened.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise OSError(errno.EFBIG, f"it has more than {LARGEST_FILE >> 20} MiB")
    return content


def check(path: Path, env: Mapping[str, str]) -> None:
    """Raise UsageError where somebody else could have made a file, or what is in a folder.

    It need not exist yet. Raises OSError when it cannot be reached.
    """
    whole, owners, trusted = Path.cwd() / path, {os.geteuid(), 0}, folders(env)
    existing = next(
        candidate for candidate in (whole, *whole.parents) if os.path.lexists(candidate)
    )
    steps = list(_steps(existing))
    _check(path, steps, owners, trusted, exists=existing == whole)
    open_to_all = False
    for step in steps:
        open_to_all |= stat.S_ISDIR(step.status.st_mode) and bool(
            step.status.st_mode & stat.S_IWOTH
        )
        stranger = open_to_all and step.status.st_uid not in owners
        if stranger and not _is_trusted(step.path, steps[-1].path, trusted):
            fault = f"{step.path} belongs to {_user(step.status.st_uid)}"
            remedies = [command("runner", "config", "trust", existing)]
            raise UsageError(
                f"{path}: other users could replace it", fault, remedies, id="path-replaceable"
            )


def _steps(path: Path) -> Iterator[PathStep]:
    """Yield what leads to a file, the file last; a link and then what it leads to."""
    here, parts, links = Path("/"), list(path.parts[1:]), 0
    yield PathStep(here, os.lstat(here))
    while parts:
        part = parts.pop(0)
        here = here.parent if part == ".." else here / part
        step = PathStep(here, os.lstat(here))
        yield step
        if stat.S_ISLNK(step.status.st_mode):
            links += 1
            if links > MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
            target = Path(os.readlink(here))
            here = Path("/") if target.is_absolute() else here.parent
            parts = [*target.parts[target.is_absolute() :], *parts]
            if not parts:
                yield PathStep(here, os.lstat(here))


def _check(
    path: Path,
    steps: list[PathStep],
    owners: Collection[int],
    trusted: Mapping[Path, int],
    exists: bool = True,
) -> None:
    """Raise UsageError for a step of others; the last is above a path that does not exist yet."""
    end = steps[-1]
    folder = end.path if stat.S_ISDIR(end.status.st_mode) else end.path.parent
    for step in steps:
        fault = _fault(step, owners, last=exists and step is end)
        if fault and not _is_trusted(step.path, end.path, trusted):
            linked = stat.S_ISLNK(step.status.st_mode)
            trust = command("runner", "config", "trust", step.path.parent if linked else folder)
            remedies = [trust]
            if step.status.st_uid == os.geteuid():
                remedies.insert(0, command("chmod", "o-w", step.path))
            raise Untrusted(f"{path}: other users could have written it", fault, remedies)
    for step in steps[-2:]:
        others = _other_members(step.status)
        if others and not _is_trusted(step.path, end.path, trusted):
            trust_command = command("runner", "config", "trust", folder)
            warnings.warn(f"{others} may write {step.path}; try: {trust_command}", stacklevel=2)


def _fault(step: PathStep, owners: Collection[int], last: bool) -> str:
    """Return why others could have made a step lead elsewhere, "" where they cannot."""
    mode, uid = step.status.st_mode, step.status.st_uid
    if (last or stat.S_ISLNK(mode)) and uid not in owners:
        kind = "the link " if stat.S_ISLNK(mode) else ""
        return f"{kind}{step.path} belongs to {_user(uid)}"
    sticky = stat.S_ISDIR(mode) and mode & stat.S_ISVTX
    if mode & stat.S_IWOTH and not sticky and not stat.S_ISLNK(mode):
        return f"every user may write {step.path} ({stat.filemode(mode)})"
    return ""


def _is_trusted(path: Path, end: Path, trusted: Mapping[Path, int]) -> bool:
    """Whether a path is in a trusted folder, or above one that holds the `end` of the way.

    The folder must have the owner that it had when it was trusted.
    """
    for folder, owner in trusted.items():
        inside = folder in (path, *path.parents)
        above = path in folder.parents and folder in (end, *end.parents)
        if (inside or above) and folder.is_dir() and folder.stat().st_uid == owner:
            return True
    return False


def _other_members(status: os.stat_result) -> str:
    """Return the group that may write here where it has other members, "" otherwise."""
    sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
    if stat.S_ISLNK(status.st_mode) or not status.st_mode & stat.S_IWGRP or sticky:
        return ""
    import grp  # few files are writable by a group
    import pwd

    try:
        group, me = grp.getgrgid(status.st_gid), pwd.getpwuid(os.geteuid())
    except KeyError:
        return f"the group {status.st_gid}"
    if group.gr_name == me.pw_name and status.st_gid == me.pw_gid:
        others = {*group.gr_mem} - {me.pw_name}  # the user's private group
    else:  # it does not list those whose primary group it is, nor does a directory service list all
        primary = {account.pw_name for account in pwd.getpwall() if account.pw_gid == status.st_gid}
        shared = {"others"} if status.st_gid == me.pw_gid else set()
        others = ({*group.gr_mem} | primary | shared) - {me.pw_name}
    return f"the group {group.gr_name}" if others else ""


def _user(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"the user {uid}"


def _list(env: Mapping[str, str]) -> Path:
    return places.user_settings(env) / "trusted.json"


def folders(env: Mapping[str, str]) -> dict[Path, int]:
    """Return the folders that the user trusted, each with the owner that it had then."""
    known = files.recall(_list(env), FORM).get("folders", {})
    return {Path(path): uid for path, uid in known.items()}


def add(folder: Path, env: Mapping[str, str]) -> Path:
    """Trust a folder and all below it for as long as it has its owner; return its real path."""
    real = folder.resolve()
    _write({**folders(env), real: real.stat().st_uid}, env)
    return real


def remove(folder: Path, env: Mapping[str, str]) -> Path:
    """Trust a folder no longer; return its real path. Raises UsageError for one that was not."""
    real, known = folder.resolve(), folders(env)
    if real not in known:
        raise UsageError(
            f"{real} was not trusted", remedy="runner config trust --list", id="folder-not-trusted"
        )
    del known[real]
    _write(known, env)
    return real


def _write(known: Mapping[Path, int], env: Mapping[str, str]) -> None:
    target = _list(env)
    content = {"form": FORM, "folders": {str(path): uid for path, uid in known.items()}}
    with disk_space.writing(target):
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        files.write_json(target, content, private=True)
