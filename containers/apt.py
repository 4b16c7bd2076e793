"""Debian packages in a definition on an image of ours, which has no apt sources.

This machine's archive is there for the build only, as pip's configuration is: the finished image
has the sources that its base has. An image with sources of its own keeps to them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from runners.core import atomic

from . import apptainer

FOLDER = "/mnt/apt"  # in the container, while it is built
BEGIN = f"[ ! -e {FOLDER}/begin ] || . {FOLDER}/begin"  # at the start of %post
APT = Path("/etc/apt")
MIRROR = "RUNNER_DEBIAN_MIRROR"  # the address of an archive to use instead of this machine's
KEYRING = "/usr/share/keyrings/debian-archive-keyring"  # of the image; .pgp since Debian 13
# Sourced by %post.
SCRIPT = f"""\
apt_sources=/etc/apt/sources.list.d/build-machine.list
apt_settings=/etc/apt/apt.conf.d/build-machine
apt_end() {{
    rm -f "$apt_sources" "$apt_settings"
    rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/apt/archives/*.deb
}}
mkdir -p /etc/apt/sources.list.d /etc/apt/apt.conf.d
apt_keys=$(ls {KEYRING}.pgp {KEYRING}.gpg 2> /dev/null | head -n 1)
sed "s|KEYRING|$apt_keys|" {FOLDER}/sources.list > "$apt_sources"
ln -sf {FOLDER}/apt.conf "$apt_settings"
trap apt_end EXIT
"""
# Downloads as root: this user's files are not for `_apt`, which may not even exist in the build.
SETTINGS = 'APT::Sandbox::User "root";\n'
PROXY = re.compile(r"^Acquire::(?:https?::Proxy|Check-Valid-Until).*;$", re.MULTILINE)
ONE_LINE = re.compile(r"^deb\s+(?:\[([^]]*)\]\s+)?(\S+)\s+\S+[ \t]*([^#\n]*)", re.MULTILINE)
FIELD = re.compile(r"^([A-Za-z-]+):[ \t]*(.*(?:\n[ \t].*)*)", re.MULTILINE)
MMDEBSTRAPS = re.compile(r"^\s*my \$mirror\s*=\s*'(https?://[^'\s]+)';$", re.MULTILINE)
KEPT = ("trusted", "check-valid-until")  # of a source's options; the keys are the image's own
QUESTION = """\
cat /etc/os-release
[ ! -x /usr/bin/apt-get ] || [ ! -d /mnt ] || echo APT=yes
[ -s /etc/apt/sources.list ] || ls /etc/apt/sources.list.d/*.* > /dev/null 2>&1 || echo SOURCES=none
"""


@dataclass(frozen=True)
class Source:
    """An archive in sources.list(5), with options such as (trusted, yes).

    KEYRING in its line stands for the image's own.
    """

    uri: str
    components: str
    options: Mapping[str, str]

    def line(self, suite: str) -> str:
        options = "".join(f" {name}={value}" for name, value in self.options.items())
        return f"deb [signed-by=KEYRING{options}] {self.uri} {suite} {self.components}\n"


def release_without_sources(image: Path) -> str:
    """Ask an image for its release of Debian; "" where it has sources, or no apt."""
    return parse_release(apptainer.ask(image, "sh", "-c", QUESTION).stdout)


def parse_release(text: str) -> str:
    """Return the release's name in the answer, of os-release(5) and two lines more."""
    settings = (line.partition("=") for line in text.splitlines())
    known = {name: value.strip("\"'") for name, equals, value in settings if equals}
    wanted = {"ID": "debian", "APT": "yes", "SOURCES": "none"}
    return known.get("VERSION_CODENAME", "") if wanted.items() <= known.items() else ""


def fill(release: str, folder: Path) -> None:
    """Write what %post sources and apt reads while the image is built into a new folder."""
    folder.mkdir()
    source = archive(os.environ)
    lines = [source.line(suite) for suite in (release, f"{release}-updates")] if source else []
    (folder / "sources.list").write_text("".join(lines))
    (folder / "begin").write_text(SCRIPT)
    # A proxy may be named with a password.
    atomic.write_text(folder / "apt.conf", f"{SETTINGS}{_machine_settings()}", private=True)


def archive(environ: Mapping[str, str]) -> Source | None:
    """Return MIRROR, else Debian's archive of this machine's sources, else that of mmdebstrap.

    It has all releases. Other archives that end in /debian have packages of one maker, and no
    component `main`.
    """
    if mirror := environ.get(MIRROR):
        return Source(mirror.rstrip("/"), "main", {})
    for source in _machine_sources():
        if source.uri.endswith("/debian") and "main" in source.components.split():
            return source
    return _default_of_mmdebstrap()


def _default_of_mmdebstrap() -> Source | None:
    """Return the archive that mmdebstrap takes where it is given none, as its text has it."""
    program = shutil.which("mmdebstrap")
    found = MMDEBSTRAPS.search(_text(Path(program))) if program else None
    return Source(found.group(1), "main", {}) if found else None


def _machine_sources() -> Iterator[Source]:
    parts = APT / "sources.list.d"
    for path in (APT / "sources.list", *sorted(parts.glob("*.list"))):
        if path.is_file():
            yield from one_line(_text(path))
    for path in sorted(parts.glob("*.sources")):
        yield from deb822(_text(path))


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def one_line(text: str) -> Iterator[Source]:
    """Read the old format: `deb [options] uri suite component ...`."""
    for options, uri, components in ONE_LINE.findall(text):
        known = dict(part.partition("=")[::2] for part in options.split())
        yield _source(uri, components, known)


def deb822(text: str) -> Iterator[Source]:
    """Read the format of *.sources: stanzas of fields."""
    for stanza in re.split(r"\n\s*\n", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)):
        fields = {name.lower(): value.strip() for name, value in FIELD.findall(stanza)}
        is_off = fields.get("enabled", "yes").lower() in ("no", "false")
        if "deb" in fields.get("types", "").split() and not is_off:
            for uri in fields.get("uris", "").split():
                yield _source(uri, fields.get("components", ""), fields)


def _source(uri: str, components: str, options: Mapping[str, str]) -> Source:
    kept = {name: options[name] for name in KEPT if options.get(name)}
    return Source(uri.rstrip("/"), " ".join(components.split()), kept)


def _machine_settings() -> str:
    """What this machine's apt is told of proxies and of archives that are out of date."""
    if shutil.which("apt-config") is None:
        return ""
    done = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=False)
    return "".join(f"{line}\n" for line in PROXY.findall(done.stdout))
