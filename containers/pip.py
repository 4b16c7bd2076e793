"""The host's pip, told to fetch for the image's Python; its settings, for one in a container."""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from runners.core.errors import Refused, SystemFault, UsageError

from . import process

# What says where packages come from. The rest of a user's configuration (target, user, prefix,
# constraint, ...) is about the machine itself.
LISTS = frozenset({"extra-index-url", "find-links", "trusted-host"})
FOLDERS = frozenset({"index-url", "extra-index-url", "find-links"})
FILES = frozenset({"cert", "client-cert"})
KEPT = {
    *(*LISTS, *FOLDERS, *FILES),
    *("no-index", "proxy", "timeout", "default-timeout", "retries", "prefer-binary"),
    *("only-binary", "no-binary", "keyring-provider"),
}
HERE = "where this machine's pip looks (see: python3 -m pip config list)"
ELSEWHERE = "an index (--extra-index-url URL, --index-url URL) or a folder (--wheelhouse DIR)"
MISSING = re.compile(
    r"(?:No matching distribution found for|that satisfies the requirement) ([^\s;(]+)"
)
NO_ANSWER = "connection broken by"  # pip's words for each attempt
TRUE = ("1", "true", "yes", "on", "t", "y")
# Later ones win (pip's documentation, "Configuration": precedence).
ORDER = ("global", "install", "wheel", ":env:")


@dataclass(frozen=True)
class PackageSource:
    """Where wheels come from; with nothing given, pip's own configuration decides."""

    wheelhouse: Path | None = None  # a folder to use alone
    index_url: str = ""
    extra_index_url: str = ""

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> PackageSource:
        """What the options of `add_options` say; UsageError when the wheel folder is not there."""
        folder = Path(options["wheelhouse"]).resolve() if options["wheelhouse"] else None
        if folder and not folder.is_dir():
            raise UsageError(
                f"--wheelhouse {options['wheelhouse']}: no such folder", id="wheelhouse-missing"
            )
        return cls(folder, options["index_url"], options["extra_index_url"])

    def options(self) -> list[str]:
        if self.wheelhouse:
            return ["--no-index", f"--find-links={self.wheelhouse}"]
        given = {"index-url": self.index_url, "extra-index-url": self.extra_index_url}
        return [f"--{name}={url}" for name, url in given.items() if url]


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--wheelhouse", metavar="DIR", help="take wheels from this folder only")
    parser.add_argument("--index-url", metavar="URL", default="", help="package index to use")
    parser.add_argument("--extra-index-url", metavar="URL", default="", help="a second index")


def target(python: str, glibc_minor: int, machine: str = "x86_64") -> list[str]:
    """Options that choose wheels for CPython, glibc 2.N and a machine, whatever runs pip."""
    glibcs = [*(f"_2_{minor}" for minor in range(glibc_minor, 4, -1)), "2014", "2010", "1"]
    platforms = [f"--platform=manylinux{glibc}_{machine}" for glibc in glibcs]
    return [f"--python-version={python}", "--implementation=cp", "--only-binary=:all:", *platforms]


def run(arguments: Sequence[str], variables: Mapping[str, str] | None = None) -> str:
    """Run pip and return what it printed; SystemFault with its last lines when it fails."""
    if importlib.util.find_spec("pip") is None:
        raise Refused(
            f"{sys.executable} has no pip, which fetches the wheels of the image.\n"
            "Install it (Debian: python3-pip) or try: python3 -m ensurepip --user",
            id="pip-missing",
        )
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    environ = {**os.environ, **(variables or {})}
    pip = subprocess.Popen(
        command,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C reaches it once, from us
    )
    with process.stoppable(pip):
        output, errors = pip.communicate()
    if pip.returncode:
        raise SystemFault(f"pip {arguments[0]} failed:\n{_last_errors(errors)}", id="pip-failed")
    return output


def _last_errors(text: str) -> str:
    """The last lines; of pip's warnings only why nobody answered, once for all its attempts."""
    lines: dict[str, str] = {}
    for line in filter(str.strip, text.splitlines()):
        if NO_ANSWER in line:
            lines[line.rpartition(": ")[2]] = line  # the address ends it
        elif "WARNING" not in line:
            lines[line] = line
    return "\n".join(list(lines.values())[-12:])


@dataclass(frozen=True)
class Addition:
    """A package that pip wants to install; `url` only when the user named the file itself."""

    name: str
    version: str
    sha256: str = ""
    url: str = ""
    requested: bool = False  # by the user, and not by another package


def additions(report: str) -> list[Addition]:
    """What pip's installation report (version 1 of its format) lists."""
    return [
        Addition(
            name=item["metadata"]["name"],
            version=item["metadata"]["version"],
            sha256=item["download_info"]
            .get("archive_info", {})
            .get("hashes", {})
            .get("sha256", ""),
            url=item["download_info"]["url"] if item.get("is_direct") else "",
            requested=item.get("requested", False),
        )
        for item in json.loads(report)["install"]
    ]


class NoFile(SystemFault):
    """Pip finds no file for a requirement."""

    id = "no-file"

    @classmethod
    def of(cls, pin: str, source: PackageSource, evidence: str) -> NoFile:
        origin = f"in {source.wheelhouse}" if source.wheelhouse else HERE
        return cls(f"no file for {pin} {origin}", evidence, ELSEWHERE)


def missing(log: str) -> str:
    """The requirement for which pip found no file, "" when its log says no such thing."""
    match = MISSING.search(log)
    return match[1] if match else ""


def machine_settings() -> dict[str, str]:
    """This machine's settings that say where packages come from. Raises RunnerError."""
    return parse_settings(run(["config", "list"]))


def parse_settings(listing: str) -> dict[str, str]:
    """The settings in force, of what `pip config list` prints: lines section.name='value'."""
    sections: dict[str, dict[str, str]] = {}
    for line in listing.splitlines():
        name, _, value = line.partition("=")
        section, _, key = name.rpartition(".")
        sections.setdefault(section, {})[key] = str(ast.literal_eval(value))
    merged: dict[str, str] = {}
    for section in ORDER:
        merged.update(sections.get(section, {}))
    return {key: value for key, value in merged.items() if key in KEPT}


def settings(
    machine: Mapping[str, str], source: PackageSource, folder: Path, authority: str = ""
) -> dict[str, str]:
    """The machine's settings with what the user asked for; relative names belong to `folder`.

    `authority` is a file of certificates, "" for the machine's own setting.
    """
    if source.wheelhouse:
        return {"no-index": "true", "find-links": source.wheelhouse.as_uri()}
    merged = dict(machine)
    if source.index_url:
        merged["index-url"] = source.index_url
    if source.extra_index_url:
        merged["extra-index-url"] = f"{merged.get('extra-index-url', '')} {source.extra_index_url}"
    if "find-links" in merged:
        merged["find-links"] = " ".join(_absolute(w, folder) for w in merged["find-links"].split())
    if authority:
        merged["cert"] = authority
    return merged


def _absolute(word: str, folder: Path) -> str:
    return word if "://" in word else (folder / Path(word).expanduser()).resolve().as_uri()


def render_settings(values: Mapping[str, str]) -> str:
    """A configuration file. It may hold passwords: write it for its owner only."""
    lines = ["[global]"]
    for key, value in sorted(values.items()):
        words = value.split() if key in LISTS else [value]
        lines.append(f"{key} = " + "\n    ".join(words))
    return "\n".join(lines) + "\n"


def local_paths(values: Mapping[str, str]) -> Iterator[Path]:
    """The files and folders of this machine that the settings name."""
    for key, value in values.items():
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
