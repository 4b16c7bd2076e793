"""The host's pip, told to fetch for the image's Python instead of its own."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import Refused, SystemFault, UsageError


@dataclass(frozen=True)
class Source:
    """Where wheels come from; with nothing given, pip's own configuration decides."""

    wheelhouse: Path | None = None  # a folder to use alone
    index_url: str = ""
    extra_index_url: str = ""

    @classmethod
    def of(cls, options: argparse.Namespace) -> Source:
        """What the options of `add_options` say. Raises UsageError."""
        return cls.given(options.wheelhouse, options.index_url, options.extra_index_url)

    @classmethod
    def given(cls, wheelhouse: str | None, index_url: str, extra_index_url: str) -> Source:
        """The same from their values; UsageError when the wheel folder is not there."""
        folder = Path(wheelhouse).resolve() if wheelhouse else None
        if folder and not folder.is_dir():
            raise UsageError(f"--wheelhouse {wheelhouse}: no such folder")
        return cls(folder, index_url, extra_index_url)

    @property
    def place(self) -> str:
        """Where it is looked for, for messages: 'no file for NAME ...'."""
        if self.wheelhouse:
            return f"in {self.wheelhouse}"
        return "where this machine's pip looks (see: python3 -m pip config list)"

    def options(self) -> list[str]:
        """The options of pip that say so."""
        if self.wheelhouse:
            return ["--no-index", f"--find-links={self.wheelhouse}"]
        given = {"index-url": self.index_url, "extra-index-url": self.extra_index_url}
        return [f"--{name}={url}" for name, url in given.items() if url]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where wheels come from."""
    parser.add_argument("--wheelhouse", metavar="DIR", help="take wheels from this folder only")
    parser.add_argument("--index-url", metavar="URL", default="", help="package index to use")
    parser.add_argument("--extra-index-url", metavar="URL", default="", help="a second index")


def target(python: str, glibc_minor: int, architecture: str = "x86_64") -> list[str]:
    """Options that choose wheels for CPython `python` and glibc 2.N, whatever runs pip."""
    newer = [f"manylinux_2_{minor}_{architecture}" for minor in range(glibc_minor, 4, -1)]
    older = [f"manylinux{year}_{architecture}" for year in ("2014", "2010", "1")]
    platforms = [f"--platform={tag}" for tag in [*newer, *older]]
    return [f"--python-version={python}", "--implementation=cp", "--only-binary=:all:", *platforms]


def run(arguments: Sequence[str], variables: Mapping[str, str] | None = None) -> str:
    """Run pip and return what it printed; SystemFault with its last lines when it fails."""
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode:
        raise Refused(
            f"{sys.executable} has no pip, which fetches the wheels of the image.\n"
            "Install it (Debian: python3-pip) or try: python3 -m ensurepip --user"
        )
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    environ = {**os.environ, **(variables or {})}
    done = subprocess.run(command, capture_output=True, text=True, env=environ)
    if done.returncode:
        raise SystemFault(f"pip {arguments[0]} failed:\n{_last_errors(done.stderr)}")
    return done.stdout


def _last_errors(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip() and "WARNING" not in line]
    return "\n".join(lines[-12:])
