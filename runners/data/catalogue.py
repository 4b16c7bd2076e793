"""The datasets that can be fetched: ours, and those of `[datasets.NAME]` in runner.toml."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from ..core.errors import NotFound, UsageError, nearest
from ..core.toml_check import check
from ..settings.config import read_toml, tables

SHIPPED = Path(__file__).with_name("catalogue.toml")
SHA256 = re.compile(r"[0-9a-f]{64}")
PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# Each key of a file with the kind of its value.
KEYS = {"urls": tuple[str, ...], "sha256": str, "size": int, "unpack": bool}
NEEDED = ("urls", "sha256")


@dataclass(frozen=True)
class Source:
    """One file: where it is, best first, its SHA-256 in hex, and its size in bytes if known.

    An archive to `unpack` is a tar file, compressed or not.
    """

    urls: tuple[str, ...]
    sha256: str
    size: int | None = None
    unpack: bool = False

    @property
    def name(self) -> str:
        """The file's name, the last part of its first address."""
        return unquote(urlsplit(self.urls[0]).path).rpartition("/")[2]


@dataclass(frozen=True)
class Entry:
    """One dataset."""

    name: str
    title: str
    files: tuple[Source, ...]


def find(name: str, env: Mapping[str, str]) -> Entry:
    """Return a dataset; raise NotFound with the nearest names, UsageError for a faulty entry."""
    there = everything(env)
    if name not in there:
        raise NotFound(f"there is no dataset named {name!r}", nearest(name, there))
    return there[name]


def everything(env: Mapping[str, str]) -> dict[str, Entry]:
    """Return all datasets by name; the user's own, then the project's, win over ours."""
    found = shipped()
    for origin, table in tables(env, "datasets"):
        for name, content in table.items():
            found[name] = _entry(f"{origin}: datasets.{name}", name, content)
    return found


def shipped() -> dict[str, Entry]:
    """Return those that come with runner."""
    return {name: _entry(name, name, table) for name, table in read_toml(SHIPPED).items()}


def _entry(origin: str, name: str, table: Any) -> Entry:
    """A dataset of one file may have the file's keys itself."""
    if not isinstance(table, dict) or not PLAIN.fullmatch(name):
        raise UsageError(f"{origin} must be a table with a plain name")
    title = table.get("title", "")
    rest = {key: value for key, value in table.items() if key != "title"}
    files = rest.pop("files", None)
    if files is None:
        files, rest = [rest], {}
    if rest or not isinstance(files, list) or not files or not isinstance(title, str):
        raise UsageError(f"{origin} may have title, files, or {', '.join(KEYS)}", ", ".join(rest))
    return Entry(name, title, tuple(_source(origin, file) for file in files))


def _source(origin: str, table: Any) -> Source:
    if not isinstance(table, dict):
        raise UsageError(f"{origin}: each file is a table", f"with {', '.join(KEYS)}")
    check(origin, KEYS, table)
    missing = [key for key in NEEDED if not table.get(key)]
    if missing:
        raise UsageError(f"{origin} lacks {' and '.join(missing)}")
    if not SHA256.fullmatch(table["sha256"].lower()):
        raise UsageError(f"{origin}: sha256 is 64 hexadecimal digits, not {table['sha256']!r}")
    urls = tuple(table["urls"])
    found = Source(urls, table["sha256"].lower(), table.get("size"), table.get("unpack", False))
    if not PLAIN.fullmatch(found.name):
        raise UsageError(f"{origin}: {urls[0]} does not end in a plain file name")
    return found
