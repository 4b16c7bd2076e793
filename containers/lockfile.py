"""The lock of an image: everything that decides what is in it, one line each.

To pip it is a requirements file with one version and one sha256 per wheel of the image, those first
that Horovod is compiled against: a change of the others does not compile it again. What only
compiling needs, and the versions of Debian's packages, stand in comments:

    torch==2.13.0+cpu --hash=sha256:...
    # These join them in the image.
    lightning==2.6.0 --hash=sha256:...
    # build cmake==3.31.10 --hash=sha256:...
    # debian libc6=2.36-9+deb12u13
    # debian-build g++=4:12.2.0-3

An image made from one of ours adds what it adds; a wheel that no index has as `# local NAME==...`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from runners.core import digest
from runners.core.errors import UsageError

LINE = re.compile(r"(?P<name>[\w.-]+)==(?P<version>\S+) --hash=sha256:(?P<sha256>[0-9a-f]{64})")

JOIN = "# These join them in the image."
BUILD_MARK = "# build "
BUILD = re.compile(rf"^{BUILD_MARK}(\S.*)$", re.MULTILINE)
DEBIAN = re.compile(r"^# (debian(?:-build)?) ([a-z0-9][a-z0-9.+-]+)=(\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Pin:
    """One package: its normalised name, exact version and the sha256 of the one file we use."""

    name: str
    version: str
    sha256: str

    def line(self) -> str:
        return f"{self.name}=={self.version} --hash=sha256:{self.sha256}"


def normalised(name: str) -> str:
    """The name as package indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pin_of(wheel: Path) -> Pin:
    """Return the pin of a wheel by its file name, `NAME-VERSION-...whl`, and its content."""
    distribution, version = wheel.name.split("-")[:2]
    return Pin(normalised(distribution), version, digest.sha256(wheel))


def parse(text: str, source: str) -> list[Pin]:
    """Read a lock; UsageError names the first line that is no pin."""
    pins = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        match = LINE.fullmatch(line.strip())
        if match is None:
            where = f"{source}, line {number}"
            raise UsageError(
                f"{where}: not 'name==version --hash=sha256:<64 digits>': {line.strip()!r}\n"
                "Locks are written by a program: python3 -m containers.lock --help",
                id="lock-line-not-pinned",
            )
        pins.append(Pin(normalised(match["name"]), match["version"], match["sha256"]))
    return pins


def debian(path: Path, section: str) -> dict[str, str]:
    """The Debian packages in a lock: lines `# SECTION NAME=VERSION`, comments to pip."""
    packages = DEBIAN.findall(path.read_text(encoding="utf-8"))
    return {name: version for part, name, version in packages if part == section}


def render_debian(sections: Mapping[str, Mapping[str, str]]) -> str:
    """The lines that `debian` reads."""
    return "".join(
        f"# {section} {name}={version}\n"
        for section, packages in sections.items()
        for name, version in sorted(packages.items())
    )


def read(path: Path) -> list[Pin]:
    """The wheels of the image. Raises UsageError."""
    return parse(path.read_text(encoding="utf-8"), path.name)


def against(path: Path) -> list[Pin]:
    """The wheels that Horovod is compiled against. Raises UsageError."""
    return parse(path.read_text(encoding="utf-8").partition(JOIN)[0], path.name)


def build(path: Path) -> list[Pin]:
    """What compiling Horovod needs besides; Horovod itself is a source archive."""
    return parse("\n".join(BUILD.findall(path.read_text(encoding="utf-8"))), path.name)


def render(against: Iterable[Pin], others: Iterable[Pin], header: str) -> str:
    """The text of a lock file: `header` as comment lines, then the pins by name, in two parts."""
    comment = "".join(f"# {line}\n" for line in header.splitlines())
    return f"{comment}{lines(against)}{JOIN}\n{lines(others)}"


def lines(pins: Iterable[Pin], before: str = "") -> str:
    return "".join(f"{before}{pin.line()}\n" for pin in sorted(pins, key=lambda pin: pin.name))
