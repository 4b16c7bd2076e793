"""Atomic JSON files, folder listings, paths as they are typed."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from . import atomic
from .errors import Refused, SystemFault
from .version import __version__

LARGEST = 256 << 20  # bytes of JSON
KINDS: Mapping[str, Any] = {
    "str": str,
    "int": int,
    "bool": bool,
    "float": (int, float),
    "Mapping[str, str]": dict,
}
Made = TypeVar("Made")
# What comes of others' JSON: of another form, deeper than any, with numbers that are no sizes.
DAMAGED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)


def make_folder(path: Path, exist_ok: bool = False) -> None:
    """Make a folder, and those above it, in which nobody else may write, whatever the umask."""
    missing = [folder for folder in path.parents if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(0o755, exist_ok=True)
    path.mkdir(0o755, exist_ok=exist_ok)


def entries(folder: Path) -> list[Path]:
    """Return what is in a folder, nothing if it does not exist."""
    return list(folder.iterdir()) if folder.is_dir() else []


def from_here(path: Path) -> str:
    """Return a path as one types it in the current folder."""
    return os.path.relpath(path) if Path.cwd() in path.parents else str(path)


def read_text(path: Path) -> str:
    """Return a text, odd bytes replaced; "" for one that does not exist."""
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def tail(path: Path, size: int) -> bytes:
    """Return the last bytes of a file, `size` at most; none of one that does not exist."""
    try:
        with open_regular(path) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - size))
            return file.read()
    except FileNotFoundError:
        return b""


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in a file, None when it does not exist; raise SystemFault."""
    value = read_any_json(path)
    if value is not None and not isinstance(value, dict):
        raise SystemFault(f"cannot read {path}", "it is not a JSON object", id="json-not-an-object")
    return value


def read_any_json(path: Path) -> Any:
    """Return a JSON file's content, None when it does not exist."""
    try:
        return json.loads(read_bytes(path))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise SystemFault(f"cannot read {path}", str(error), id="json-unreadable") from None


def open_regular(path: Path) -> BinaryIO:
    """Open a file that may be another user's, such as a log. Raises OSError.

    A pipe, on which opening would wait, and a device without an end are as if they were not there.
    """
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise FileNotFoundError(errno.ENOENT, "it is not a regular file", str(path))
    return open(opened, "rb")


def read_bytes(path: Path) -> bytes:
    """Return the content of a file that may be another user's. Raises OSError and ValueError.

    No pipe is waited for, and no device read without end.
    """
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is not a regular file")
        return file.read(LARGEST)


def read_versioned(path: Path, form: int) -> dict[str, Any] | None:
    """Return what `write_versioned` wrote, None when it does not exist.

    Raises Refused for another form, SystemFault for no table.
    """
    record = read_json(path)
    if record is None:
        return None
    theirs, writer = record.pop("form", 1), record.pop("runner", "0.1.0 or older")
    if theirs != form:
        raise Refused(
            f"{path.parent} was written by runner {writer} ({path.name} of form {theirs})",
            f"this is runner {__version__}, which reads form {form}",
            id="form-of-other-version",
        )
    return record


def write_versioned(path: Path, form: int, value: Mapping[str, Any], private: bool = False) -> None:
    """Write by rename, with the form's number and who wrote it, for `read_versioned`."""
    write_json(path, {"form": form, "runner": __version__, **value}, private)


def write_json(path: Path, value: Any, private: bool = False) -> None:
    """Write by rename, so that nobody reads half a file; `private` is for its owner alone."""
    atomic.write_text(path, json.dumps(value, indent=2) + "\n", private)


def from_json(
    cls: Callable[..., Made], table: Mapping[str, Any], readers: Mapping[str, Any]
) -> Made:
    """Return a dataclass of a JSON object, its fields checked by their annotations.

    `readers` make values of what is no type of JSON's. Raises one of DAMAGED.
    """
    annotations = {field.name: str(field.type) for field in fields(cls)}  # type: ignore[arg-type]

    def value(annotation: str, item: Any) -> Any:
        kind = annotation.removesuffix(" | None")
        if item is None and kind != annotation:
            return None
        if kind in readers:
            return readers[kind](item)
        if not isinstance(item, KINDS[kind]):
            raise ValueError(f"{item!r} is no {kind}")
        return item

    return cls(**{name: value(annotations[name], item) for name, item in table.items()})


def recall(path: Path, form: int) -> dict[str, Any]:
    """Return what `remember` wrote; nothing where another user or another form could be there."""
    try:
        with path.open(encoding="utf-8") as file:
            status = os.fstat(file.fileno())
            if status.st_uid != os.geteuid() or status.st_mode & 0o022:
                return {}
            content = json.load(file)
    except (OSError, ValueError, RecursionError):
        return {}
    known = isinstance(content, dict) and content.pop("form", form) == form
    return content if known else {}


def remember(path: Path, form: int, content: Mapping[str, Any]) -> None:
    """Write what saves time at the next command; a full or read-only home costs no more than it."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_json(path, {"form": form, **content}, private=True)
