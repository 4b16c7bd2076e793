"""Debian packages in a definition of one's own: apt sources for images that have none.

The sources of this machine are there for the build only, as pip's configuration is: an image gets
those of its own distribution's image, and nothing of this machine's.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from runners.core import atomic

from . import apptainer

FOLDER = "/mnt/apt"  # in the container, while it is built
BEGIN = f"[ ! -e {FOLDER}/begin ] || . {FOLDER}/begin"  # at the start of %post
APT = Path("/etc/apt")
MIRROR = "RUNNER_DEBIAN_MIRROR"  # the address of an archive to use instead of this machine's
OS_RELEASE = Path("/etc/os-release")
DEBIAN = ("debian", "debian-security")  # how the addresses of Debian's archives end
KEYRING = "/usr/share/keyrings/debian-archive-keyring"
# What debian:12-slim and debian:13-slim have in /etc/apt/sources.list.d/debian.sources.
OFFICIAL = """\
Types: deb
URIs: http://deb.debian.org/debian
Suites: {codename} {codename}-updates
Components: main
Signed-By: {keyring}

Types: deb
URIs: http://deb.debian.org/debian-security
Suites: {codename}-security
Components: main
Signed-By: {keyring}
"""
# Sourced by %post. Links can be told from what %post itself writes, also after it failed.
SCRIPT = """\
apt_folder={folder}
apt_sources=/etc/apt/sources.list.d/build-machine.list
apt_settings=/etc/apt/apt.conf.d/build-machine
apt_none=
[ -s /etc/apt/sources.list ] || ls /etc/apt/sources.list.d/*.* > /dev/null 2>&1 || apt_none=yes
apt_own() {{
    rm -f "$apt_sources" "$apt_settings"
    rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/apt/archives/*.deb
    if [ "$apt_none" ] && [ ! -e /etc/apt/sources.list.d/debian.sources ]; then
        cat "$apt_folder/official" > /etc/apt/sources.list.d/debian.sources
    fi
}}
mkdir -p /etc/apt/sources.list.d /etc/apt/apt.conf.d
ln -sf "$apt_folder/sources.list" "$apt_sources"
ln -sf "$apt_folder/apt.conf" "$apt_settings"
trap apt_own EXIT
"""
# Downloads as root: this user's files are not for `_apt`, which may not even exist in the build.
SETTINGS = 'APT::Sandbox::User "root";\n'
PROXY = re.compile(r"^Acquire::(?:https?::Proxy|Check-Valid-Until).*;$", re.MULTILINE)
ONE_LINE = re.compile(r"^deb\s+(?:\[([^]]*)\]\s+)?(\S+)\s+(\S+)[ \t]*([^#\n]*)", re.MULTILINE)
FIELD = re.compile(r"^([A-Za-z-]+):[ \t]*(.*(?:\n[ \t].*)*)", re.MULTILINE)
QUESTION = f"""\
cat /etc/os-release
[ ! -x /usr/bin/apt-get ] || [ ! -d /mnt ] || echo APT=yes
[ ! -e {KEYRING}.pgp ] || echo KEYRING={KEYRING}.pgp
"""


@dataclass(frozen=True)
class Source:
    """One entry of sources.list(5); options such as (signed-by, PATH)."""

    uri: str
    suite: str
    components: str
    options: Mapping[str, str]

    def line(self) -> str:
        options = " ".join(f"{name}={value}" for name, value in self.options.items())
        return f"deb {f'[{options}] ' if options else ''}{self.uri} {self.suite} {self.components}"


@dataclass(frozen=True)
class AptImage:
    """What is known of an image with apt."""

    codename: str
    keyring: str

    def official(self) -> str:
        """The sources that the distribution's own image has."""
        return OFFICIAL.format(codename=self.codename, keyring=self.keyring)


def find(image: Path) -> AptImage | None:
    """Ask an image for its release; None where it has no apt, or another distribution's."""
    known = parse_release(apptainer.ask(image, "sh", "-c", QUESTION).stdout)
    if (known.get("ID"), known.get("APT")) != ("debian", "yes") or "VERSION_CODENAME" not in known:
        return None
    return AptImage(known["VERSION_CODENAME"], known.get("KEYRING", f"{KEYRING}.gpg"))


def fill(image: AptImage, folder: Path) -> None:
    """Write what %post sources and apt reads while the image is built into a new folder."""
    folder.mkdir()
    machine = _this_release()
    sources = machine_sources(os.environ) or list(deb822(image.official()))
    fitting = for_release(sources, machine, image.codename) or list(deb822(image.official()))
    lines = [_with_key(source, number, folder).line() for number, source in enumerate(fitting)]
    (folder / "sources.list").write_text("\n".join(lines) + "\n")
    (folder / "official").write_text(image.official())
    (folder / "begin").write_text(SCRIPT.format(folder=FOLDER))
    # A proxy may be named with a password.
    text = f"{SETTINGS}{_machine_settings()}{_passwords(folder)}"
    atomic.write_text(folder / "apt.conf", text, private=True)


def parse_release(text: str) -> dict[str, str]:
    """Return the variables of os-release(5)."""
    settings = (line.partition("=") for line in text.splitlines())
    return {name: value.strip("\"'") for name, equals, value in settings if equals}


def _this_release() -> dict[str, str]:
    return parse_release(OS_RELEASE.read_text("utf-8") if OS_RELEASE.is_file() else "")


def machine_sources(environ: Mapping[str, str]) -> list[Source]:
    """Return the sources of this machine, or those of the archive that a build was told to use."""
    if mirror := environ.get(MIRROR):
        name = _this_release().get("VERSION_CODENAME", "stable")
        suites = (name, f"{name}-updates")
        return [Source(mirror.rstrip("/"), suite, "main", {}) for suite in suites]
    parts = APT / "sources.list.d"
    lists = [APT / "sources.list", *sorted(parts.glob("*.list"))]
    listed = [source for path in lists if path.is_file() for source in one_line(_text(path))]
    return listed + [s for path in sorted(parts.glob("*.sources")) for s in deb822(_text(path))]


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def one_line(text: str) -> Iterator[Source]:
    """Read the old format: `deb [options] uri suite component ...`."""
    for options, uri, suite, components in ONE_LINE.findall(text):
        known = dict(part.partition("=")[::2] for part in options.split())
        yield Source(uri, suite, components.strip(), _kept(known))


def deb822(text: str) -> Iterator[Source]:
    """Read the format of *.sources: stanzas of fields."""
    for stanza in re.split(r"\n\s*\n", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)):
        fields = {name.lower(): value.strip() for name, value in FIELD.findall(stanza)}
        types = fields.get("types", "").split()
        if "deb" not in types or fields.get("enabled", "yes").lower() in ("no", "false"):
            continue
        for uri in fields.get("uris", "").split():
            for suite in fields.get("suites", "").split():
                components = " ".join(fields.get("components", "").split())
                yield Source(uri, suite, components, _kept(fields))


def _kept(options: Mapping[str, str]) -> dict[str, str]:
    names = ("arch", "signed-by", "trusted", "check-valid-until")
    return {name: options[name] for name in names if options.get(name)}


def for_release(sources: list[Source], machine: Mapping[str, str], codename: str) -> list[Source]:
    """Return the machine's sources as they are for a release of Debian.

    Debian's archive has all releases; another archive serves the release that it is named for.
    """
    release, is_debian = machine.get("VERSION_CODENAME", ""), machine.get("ID") == "debian"
    fitting = []
    for source in sources:
        name, dash, rest = source.suite.partition("-")
        if source.uri.rstrip("/").rpartition("/")[2] in DEBIAN:
            if name in (release, codename, "stable"):
                fitting.append(replace(source, suite=f"{codename}{dash}{rest}"))
        elif is_debian and release == codename and not source.uri.startswith(("file:", "cdrom:")):
            fitting.append(source)
    return list({source.line(): source for source in fitting}.values())


def _with_key(source: Source, number: int, folder: Path) -> Source:
    """The source with its key beside it, or with the image's own keys."""
    key = source.options.get("signed-by", "")
    kept = {name: value for name, value in source.options.items() if name != "signed-by"}
    if "BEGIN PGP" in key:
        name, lines = f"{number}.asc", (line.strip() for line in key.splitlines())
        text = "\n".join("" if line == "." else line for line in lines) + "\n"
        (folder / name).write_text(text)
    elif key and Path(key).is_file():
        name = f"{number}{Path(key).suffix}"
        shutil.copyfile(key, folder / name)
    else:
        return replace(source, options=kept)
    return replace(source, options={**kept, "signed-by": f"{FOLDER}/{name}"})


def _machine_settings() -> str:
    """What this machine's apt is told of proxies and of archives that are out of date."""
    if shutil.which("apt-config") is None:
        return ""
    done = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=False)
    return "".join(f"{line}\n" for line in PROXY.findall(done.stdout))


def _passwords(folder: Path) -> str:
    """Copy the passwords for archives that this user may read; return the setting for them."""
    files = [APT / "auth.conf", *sorted((APT / "auth.conf.d").glob("*.conf"))]
    texts = [_text(path) for path in files if os.access(path, os.R_OK)]
    if not texts:
        return ""
    atomic.write_text(folder / "auth.conf", "\n".join(texts), private=True)
    return f'Dir::Etc::netrc "{FOLDER}/auth.conf";\n'
