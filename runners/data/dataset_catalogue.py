"""The datasets that can be fetched: ours, and those of `[datasets.NAME]` in runner.toml."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Optional
from urllib.parse import unquote, urlsplit

from ..core.errors import NotFound, UsageError, nearest
from ..core.toml_check import Rule, check, convert, kinds
from ..settings.config_files import read_toml, tables

SHIPPED = Path(__file__).with_name("catalogue.toml")
SHA256 = Rule("64 hexadecimal digits", re.compile(r"[0-9a-fA-F]{64}").fullmatch)
PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def _within(text: str) -> bool:
    path = PurePosixPath(text)
    return bool(text) and not path.is_absolute() and ".." not in path.parts and "\0" not in text


Place = Annotated[str, Rule("a path within the dataset", _within)]


@dataclass(frozen=True)
class DatasetFile:
    """One file: where it is, best first, its SHA-256 in hex, and its size in bytes if known.

    What is in a tar file, compressed or not, or in a .gz is put into the folders `unpack`. `keep`
    are the paths at which the file itself lies, by default its name where it is not unpacked.
    """

    urls: tuple[str, ...]
    sha256: Annotated[str, SHA256]
    size: Optional[int] = None  # noqa: UP045 - read as it runs, by Python 3.9 too
    unpack: tuple[Place, ...] = ()
    keep: tuple[Place, ...] = ()

    @property
    def name(self) -> str:
        """The file's name, the last part of its first address."""
        return unquote(urlsplit(self.urls[0]).path).rpartition("/")[2]

    @property
    def kept(self) -> tuple[str, ...]:
        """Where the file itself lies in the dataset."""
        return self.keep or (() if self.unpack else (self.name,))


FILES = tuple[DatasetFile, ...]


@dataclass(frozen=True)
class CatalogueEntry:
    """One dataset."""

    name: str
    title: str
    files: tuple[DatasetFile, ...]


def find(name: str, env: Mapping[str, str]) -> CatalogueEntry:
    """Return a dataset; raise NotFound with the nearest names, UsageError for a faulty entry."""
    entries = everything(env)
    if name not in entries:
        raise NotFound(
            f"there is no dataset named {name!r}", nearest(name, entries), id="dataset-unknown"
        )
    return entries[name]


def everything(env: Mapping[str, str]) -> dict[str, CatalogueEntry]:
    """Return all datasets by name; the user's own, then the project's, win over ours."""
    entries = shipped()
    for origin, table in tables(env, "datasets"):
        for name, content in table.items():
            entries[name] = _entry(f"{origin}: datasets.{name}", name, content)
    return entries


def shipped() -> dict[str, CatalogueEntry]:
    return {name: _entry(name, name, table) for name, table in read_toml(SHIPPED).items()}


def _entry(origin: str, name: str, table: Any) -> CatalogueEntry:
    """A dataset of one file may have the file's keys itself."""
    if not isinstance(table, dict) or not PLAIN.fullmatch(name):
        raise UsageError(
            f"{origin} must be a table with a plain name", id="dataset-entry-malformed"
        )
    if "files" not in table:
        file = {key: value for key, value in table.items() if key != "title"}
        table = {"title": table.get("title", ""), "files": [file]}
    check(origin, {"title": str, "files": FILES}, table)
    files = convert(FILES, table["files"])
    if not files:
        raise UsageError(
            f"{origin} may have title, files, or {', '.join(kinds(DatasetFile))}",
            id="dataset-entry-keys",
        )
    for source in files:
        if not source.urls or not PLAIN.fullmatch(source.name):
            raise UsageError(
                f"{origin}: {source.urls} does not begin with a plain file's address",
                id="dataset-entry-address",
            )
    return CatalogueEntry(name, table.get("title", ""), files)
