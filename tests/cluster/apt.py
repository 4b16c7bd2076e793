"""Which Debian archive this machine uses, read from its own apt configuration."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from .shell import Unsupported


@dataclass(frozen=True)
class Source:
    """One archive: *uri* and the suites it is used for."""

    uri: str
    suites: tuple[str, ...]


def parse_deb822(text: str) -> list[Source]:
    """The enabled binary sources of a `.sources` file (format: sources.list(5), DEB822-STYLE)."""
    found = []
    for paragraph in re.split(r"\n\s*\n", text):
        fields = _fields(paragraph)
        if "deb" not in fields.get("types", "").split():
            continue
        if fields.get("enabled", "yes").lower() in ("no", "false", "off", "0"):
            continue
        suites = tuple(fields.get("suites", "").split())
        found += [Source(uri.rstrip("/"), suites) for uri in fields.get("uris", "").split()]
    return found


def _fields(paragraph: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    name = ""
    for line in paragraph.splitlines():
        if line.startswith("#"):
            continue
        if line[:1].isspace():
            fields[name] = f"{fields.get(name, '')} {line.strip()}"
        elif ":" in line:
            name, value = line.split(":", 1)
            name = name.lower()
            fields[name] = value.strip()
    return fields


def parse_one_line(text: str) -> list[Source]:
    """The binary sources of a `sources.list` (format: sources.list(5), ONE-LINE-STYLE)."""
    pattern = re.compile(r"^\s*deb\s+(?:\[[^\]]*\]\s+)?(\S+)\s+(\S+)", re.MULTILINE)
    return [Source(uri.rstrip("/"), (suite,)) for uri, suite in pattern.findall(text)]


def read_sources(etc_apt: Path) -> list[Source]:
    """All sources below *etc_apt* (normally /etc/apt)."""
    parts = etc_apt / "sources.list.d"
    found = []
    for path in [etc_apt / "sources.list", *sorted(parts.glob("*.list"))]:
        if path.is_file():
            found += parse_one_line(path.read_text())
    for path in sorted(parts.glob("*.sources")):
        found += parse_deb822(path.read_text())
    return found


def debian_mirror(sources: Iterable[Source], codename: str, environ: Mapping[str, str]) -> str:
    """The archive that holds the host's own release *codename*, or RUNNER_DEBIAN_MIRROR.

    Raises Unsupported when neither names one.
    """
    if environ.get("RUNNER_DEBIAN_MIRROR"):
        return environ["RUNNER_DEBIAN_MIRROR"].rstrip("/")
    for source in sources:
        if codename in source.suites:
            return source.uri
    raise Unsupported(
        f"no Debian archive for '{codename}' in /etc/apt/sources.list or /etc/apt/sources.list.d;\n"
        "name one: RUNNER_DEBIAN_MIRROR=<archive address> python3 -m tests.cluster rootfs"
    )


def host_mirror(environ: Mapping[str, str]) -> str:
    """debian_mirror() of this machine; an archive of another distribution is not taken for one."""
    release = dict(re.findall(r'^(\w+)="?([^"\n]*)', Path("/etc/os-release").read_text(), re.M))
    codename = release.get("VERSION_CODENAME", "") if release.get("ID") == "debian" else ""
    return debian_mirror(read_sources(Path("/etc/apt")), codename, environ)
