"""The lines of %files as COPY instructions.

Apptainer copies by `cp -fLr`: into a folder that is there, or that ends with a slash; else the copy
gets the name itself. COPY puts a folder's content into its target, and keeps links.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

# Folders of every base (hier(7)).
OF_BASE = (
    *("/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/media", "/mnt", "/opt", "/root"),
    *("/run", "/sbin", "/srv", "/tmp", "/usr", "/usr/bin", "/usr/lib", "/usr/local", "/usr/sbin"),
    *("/usr/local/bin", "/usr/local/lib", "/usr/share", "/usr/src", "/var", "/var/lib", "/var/tmp"),
)
IGNORE = (".dockerignore", ".containerignore")


class Copy(NamedTuple):
    """Sources in the build context, one that may have wildcards, and the target."""

    source: str
    target: str

    def __str__(self) -> str:
        words = [self.source, self.target]
        return json.dumps(words) if any(" " in word for word in words) else " ".join(words)


class Problem(Exception):
    """Why a line cannot be a COPY."""


def copies(
    folder: Path, lines: Sequence[tuple[int, str, str]]
) -> tuple[list[str], list[tuple[int, str]]]:
    """Return what stands behind each COPY, and line and words for what none can do.

    `folder` is the build context.
    """
    made, problems, targets = list[Copy](), list[tuple[int, str]](), {*OF_BASE}
    for number, _, text in lines:
        try:
            for file in _of_line(folder, text, targets):
                made.append(file)
                targets |= {str(path) for path in PurePosixPath(file.target).parents}
                targets |= {file.target.rstrip("/")} if file.target.endswith("/") else set()
        except (Problem, ValueError) as error:
            problems.append((number, f"%files, {text.strip()}: {error}"))
    return list(map(str, made)), problems


def _of_line(folder: Path, text: str, targets: set[str]) -> Iterable[Copy]:
    source, *more = shlex.split(text, comments=True)
    if more[1:]:
        raise Problem("more than a source and a target")
    name = _in_context(folder, source)
    target = more[0] if more else source
    target = target if target.startswith("/") else f"/{target}"
    found = sorted(folder.glob(name)) if name != "." else [folder]
    if not found:
        raise Problem(f"not in {folder}")
    for path in found:
        _refuse_links(path)
    inside = target.endswith("/") or target in targets
    if not any(path.is_dir() for path in found):
        if len(found) > 1 and not inside:
            raise Problem(f"several files: end the target with a slash, {target}/")
        return [Copy(name, f"{target.rstrip('/')}/" if inside else target)]
    names = [str(path.relative_to(folder)) for path in found]
    return [Copy(n, _target(folder / n, target, inside)) for n in names]


def _target(path: Path, target: str, inside: bool) -> str:
    """Return what COPY needs: for a folder the one that gets its content."""
    whole = f"{target.rstrip('/')}/{path.name}" if inside else target
    return f"{whole}/" if path.is_dir() else whole


def _in_context(folder: Path, source: str) -> str:
    path = os.path.normpath(folder / source)
    if os.path.commonpath([path, folder]) != str(folder):
        raise Problem(f"outside of {folder}: copy it there")
    return os.path.relpath(path, folder)


def _refuse_links(path: Path) -> None:
    """Raise Problem for a link: Apptainer copies what it leads to."""
    for here, folders, files in os.walk(path):
        for name in (*folders, *files):
            if os.path.islink(os.path.join(here, name)):
                raise Problem(f"{os.path.join(here, name)} is a link: put the file there")
    if path.is_symlink():
        raise Problem(f"{path} is a link: name what it leads to")
