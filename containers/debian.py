"""A base image made on the spot from Debian packages: for networks that reach no image registry.

Archives replace packages by newer ones and drop the old, so a lock cannot bring them back: a build
reports what differs from it, and `--frozen` refuses it.
"""

from __future__ import annotations

import re
import shutil
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from runners.core.errors import Refused, SystemFault
from runners.core.machine import AMD64, ARM64
from runners.core.text import first_few

from . import apt, lockfile

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
NO_ARCHIVE = """\
no Debian archive in this machine's apt sources (/etc/apt), to make the base image from.
Name one:          RUNNER_DEBIAN_MIRROR=<archive address> runner build cpu
or use a registry: runner build cpu --base debian:12-slim"""
NO_TOOL = """\
a base image from Debian packages needs mmdebstrap and debian-archive-keyring, which are not here.
Install both, or use a registry: runner build cpu --base debian:12-slim"""
STATIC_UNUSED = ("cublas", "cufft", "curand", "cusolver", "cusparse", "npp", "nv")
NO_IDS = """\
a base image from Debian packages needs subordinate ids, which this user does not have here.
Use a registry's: runner build cpu --base debian:12-slim"""
# The user is root in here. mmdebstrap's own mode `unshare` makes the user nobody: it fails below a
# folder that only its owner may enter, which most people's scratch is.
NAMESPACE = (
    *("unshare", "--user", "--map-root-user", "--map-auto"),
    *("--mount", "--pid", "--fork", "--kill-child"),
)
# Debian 12 asks for usrmerge or usr-is-merged, and apt takes the first, with all of Perl: 11 MB
# packed. This hook, part of Debian 12's mmdebstrap and newer, merges before.
MERGED = {"bookworm": ("--hook-dir=/usr/share/mmdebstrap/hooks/maybe-merged-usr",)}
# Whether its programs run here was tried before; arch-test, which mmdebstrap asks, may not be here.
FOREIGN = {ARM64: (f"--architectures={ARM64}", "--skip=check/qemu")}
# No trace of the archive: the image's own sources list stays empty.
CLEAN = 'rm -f "$1"/etc/apt/sources.list "$1"/etc/resolv.conf "$1"/etc/hostname'
SECTIONS = ("debian", "debian-build")  # of a lock: for the image, and to compile in
SHOWN = 10
# Lists the packages in the form of dpkg's own status file.
DPKG = ("dpkg-query", "--show", r"--showformat=Package: ${Package}\nVersion: ${Version}\n\n")


def available() -> bool:
    return shutil.which("mmdebstrap") is not None and Path(KEYRING).exists()


def find_archive(environ: Mapping[str, str]) -> str:
    """Return the address of the archive to use. Raises Refused where this machine has none."""
    source = apt.archive(environ)
    if source is None:
        raise Refused(NO_ARCHIVE, id="debian-archive-missing")
    return source.uri


def argv(
    archive: str,
    codename: str,
    components: Sequence[str],
    packages: Sequence[str],
    output: Path,
    mode: str = "unshare",
    architecture: str = AMD64,
) -> list[str]:
    """The command that writes the base's file system to `output`, a .tar.

    Mode `unshare` is for an ordinary user with subordinate ids, `root` for root.
    """
    signed, parts = f"[signed-by={KEYRING}]", " ".join(components)
    return [
        *(NAMESPACE if mode == "unshare" else ()),
        *("mmdebstrap", "--mode=root", "--variant=minbase", "--format=tar", "--quiet"),
        *FOREIGN.get(architecture, ()),
        f"--include={','.join(packages)}",
        # /dev/* cannot be unpacked without privilege, and every container mounts its own.
        "--skip=output/dev",
        "--aptopt=APT::Install-Recommends false",
        "--aptopt=Acquire::Check-Valid-Until false",
        "--aptopt=Acquire::Languages none",
        "--dpkgopt=force-unsafe-io",
        "--dpkgopt=path-exclude=/usr/share/doc/*",
        "--dpkgopt=path-include=/usr/share/doc/*/copyright",
        "--dpkgopt=path-exclude=/usr/share/man/*",
        "--dpkgopt=path-exclude=/usr/share/locale/*",
        # CUDA's libraries of mathematics, 2.3 GB that nothing of ours is linked against.
        *(f"--dpkgopt=path-exclude=/usr/lib/*/lib{name}*_static*.a" for name in STATIC_UNUSED),
        *MERGED.get(codename, ()),
        f"--customize-hook={CLEAN}",
        *(codename, str(output)),
        *(f"deb {signed} {archive} {suite} {parts}" for suite in (codename, f"{codename}-updates")),
    ]


def installed(layer: Path) -> dict[str, str]:
    """The version of each package in a base's file system archive."""
    with tarfile.open(layer) as archive:
        for entry in archive:
            if entry.name.lstrip("./") == "var/lib/dpkg/status" and entry.isfile():
                stream = archive.extractfile(entry)
                return parse_status(stream.read().decode() if stream else "")
    raise SystemFault(f"{layer} has no list of Debian packages", id="package-list-missing")


def parse_status(text: str) -> dict[str, str]:
    """Package and version of dpkg's status file (deb822: stanzas of `Field: value`)."""
    versions = {}
    for stanza in text.split("\n\n"):
        fields = dict(re.findall(r"^(Package|Version): (.*)$", stanza, re.MULTILINE))
        if len(fields) == 2:
            versions[fields["Package"]] = fields["Version"]
    return versions


def unpack_command(archive: Path, folder: Path) -> list[str]:
    """What unpacks a base, with the owners of its files, which are the user's subordinate ids."""
    return [*NAMESPACE, "tar", "--extract", f"--file={archive}", f"--directory={folder}"]


def check_versions(installed: Mapping[str, str], lock: Path, section: str, frozen: bool) -> None:
    """Say what is not as locked, on standard error; SystemFault when `frozen`."""
    locked = lockfile.debian(lock, section)
    differing = [
        f"{name}: locked {locked.get(name, 'not at all')}, now {installed.get(name, 'absent')}"
        for name in sorted({*locked, *installed})
        if locked.get(name) != installed.get(name)
    ]
    if not differing:
        return
    title = f"{len(differing)} Debian packages differ from {lock.name}:"
    text = "\n  ".join([title, first_few(differing, SHOWN, "\n  ")])
    if frozen:
        raise SystemFault(
            f"{text}\n--frozen allows none of it. To renew the lock: make lock",
            id="debian-not-as-locked",
        )
    print(text, file=sys.stderr)
