"""The lock files: requirements format, one version and one sha256 per package."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .errors import Refused

LINE = re.compile(r"(?P<name>[\w.-]+)==(?P<version>\S+) --hash=sha256:(?P<sha256>[0-9a-f]{64})")


@dataclass(frozen=True)
class Pin:
    """One package: its normalised name, exact version and the sha256 of the one file we use."""

    name: str
    version: str
    sha256: str

    def line(self) -> str:
        """The pin as pip reads it."""
        return f"{self.name}=={self.version} --hash=sha256:{self.sha256}"


def normalised(name: str) -> str:
    """The name as package indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def parse(text: str, source: str) -> list[Pin]:
    """Read a lock; Refused names the first line that is not `name==version --hash=sha256:...`."""
    pins = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        pins.append(_pin(line.strip(), f"{source}, line {number}"))
    return pins


def _pin(line: str, where: str) -> Pin:
    match = LINE.fullmatch(line)
    if match is None:
        raise Refused(
            f"{where}: not 'name==version --hash=sha256:<64 digits>': {line!r}\n"
            "Locks are written by a program: python3 -m containers.lock --help"
        )
    return Pin(normalised(match["name"]), match["version"], match["sha256"])


def read(path: Path) -> list[Pin]:
    """Read a lock file. Raises Refused."""
    return parse(path.read_text(encoding="utf-8"), path.name)


def render(pins: Iterable[Pin], header: str) -> str:
    """The text of a lock file: `header` as comment lines, then the pins by name."""
    comment = "".join(f"# {line}\n" for line in header.splitlines())
    return comment + "".join(f"{pin.line()}\n" for pin in sorted(pins, key=lambda pin: pin.name))
