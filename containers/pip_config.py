"""The building machine's pip configuration, written anew for a pip that runs in a container."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from . import pip

# What says where packages come from. The rest of a user's configuration (target, user, prefix,
# constraint, ...) is about the machine itself.
LISTS = frozenset({"extra-index-url", "find-links", "trusted-host"})
FOLDERS = frozenset({"index-url", "extra-index-url", "find-links"})
FILES = frozenset({"cert", "client-cert"})
KEPT = (
    LISTS
    | FOLDERS
    | FILES
    | {"no-index", "proxy", "timeout", "default-timeout", "retries", "prefer-binary"}
    | {"only-binary", "no-binary", "keyring-provider"}
)
# Later ones win (pip's documentation, "Configuration": precedence).
ORDER = ("global", "install", "wheel", ":env:")


def parse(listing: str) -> dict[str, str]:
    """The settings in force, of what `pip config list` prints: lines section.name='value'."""
    found: dict[str, dict[str, str]] = {}
    for line in listing.splitlines():
        name, _, value = line.partition("=")
        section, _, key = name.rpartition(".")
        found.setdefault(section, {})[key] = str(ast.literal_eval(value))
    merged: dict[str, str] = {}
    for section in ORDER:
        merged.update(found.get(section, {}))
    return {key: value for key, value in merged.items() if key in KEPT}


def settings(
    machine: Mapping[str, str], source: pip.Source, folder: Path, authority: str = ""
) -> dict[str, str]:
    """The machine's settings with what the user asked for; relative names belong to `folder`.

    `authority` is a file of certificates, "" for the machine's own setting.
    """
    if source.wheelhouse:
        return {"no-index": "true", "find-links": source.wheelhouse.as_uri()}
    made = dict(machine)
    if source.index_url:
        made["index-url"] = source.index_url
    if source.extra_index_url:
        made["extra-index-url"] = f"{made.get('extra-index-url', '')} {source.extra_index_url}"
    if "find-links" in made:
        made["find-links"] = " ".join(_absolute(w, folder) for w in made["find-links"].split())
    if authority:
        made["cert"] = authority
    return made


def _absolute(word: str, folder: Path) -> str:
    return word if "://" in word else (folder / Path(word).expanduser()).resolve().as_uri()


def render(found: Mapping[str, str]) -> str:
    """A configuration file. It may hold passwords: write it for its owner only."""
    lines = ["[global]"]
    for key, value in sorted(found.items()):
        words = value.split() if key in LISTS else [value]
        lines.append(f"{key} = " + "\n    ".join(words))
    return "\n".join(lines) + "\n"


def local(found: Mapping[str, str]) -> Iterator[Path]:
    """The files and folders of this machine that the settings name."""
    for key, value in found.items():
        if key in FOLDERS:
            for word in value.split():
                if urlsplit(word).scheme == "file":
                    yield _whole(Path(unquote(urlsplit(word).path)), key)
        elif key in FILES:
            yield Path(value)


def _whole(folder: Path, key: str) -> Path:
    """The folder that holds an index together with its files, which usually lie beside it."""
    beside = key != "find-links" and len(folder.parts) > 3
    return folder.parent if beside else folder
