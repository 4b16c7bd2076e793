"""Runs Apptainer for a build: as an ordinary user, in the way that was found to work here."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from runners.core import disk_space
from runners.core.errors import Refused

from . import build_modes, process
from .build_folders import BuildFolders
from .build_modes import Mode

# Settings of the building machine that must not decide what is in an image.
FOREIGN = ("PIP_", "PYTHON", "APPTAINER_BIND", "SINGULARITY_BIND", "SOURCE_DATE_EPOCH")
NO_APPTAINER = """\
apptainer is not on PATH, and images are built with it. On a cluster try 'module load apptainer'
(or 'module avail'); elsewhere see apptainer.org, Install. Version 1.2 or newer."""
# Apptainer (1.4) writes the time of the build into the tree; the rest is the same each time. It
# packs with the first mksquashfs on PATH, which is then this one.
PACKER = """\
#!/bin/sh
[ ! -f "$1/.singularity.d/labels.json" ] || \\
    sed -i '/"org.label-schema.build-date"/d' "$1/.singularity.d/labels.json"
PATH=${{PATH#*{folder}:}}
exec mksquashfs "$@"
"""
# What reads a site's certificate authority from a file named in a variable.
CA_VARIABLES = (
    *("SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "PIP_CERT"),
    *("GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS"),
)
CA_FOLDER = "/media"  # in every base we know, and empty; a bind needs a place that exists
# Where Debian, Red Hat and SUSE keep the authorities that this machine trusts.
BUNDLES = (
    *("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"),
    "/etc/ssl/ca-bundle.pem",
)
APT_CONFIG = f'Acquire::https::CaInfo "{CA_FOLDER}/ca.crt";\n'


def require() -> None:
    """Refused when there is no Apptainer, or it cannot run at all."""
    if shutil.which("apptainer") is None:
        raise Refused(NO_APPTAINER, id="apptainer-missing")
    done = subprocess.run(["apptainer", "--version"], capture_output=True, text=True)
    if done.returncode:
        raise Refused(f"'apptainer --version' fails:\n{done.stderr.strip()}", id="apptainer-broken")


def exec_argv(image: Path, *words: str) -> list[str]:
    """What runs a command in an image, without the variables of this machine."""
    return ["apptainer", "exec", "--cleanenv", str(image), *words]


def ask(image: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The answer of a command in an image."""
    return subprocess.run(exec_argv(image, *words), capture_output=True, text=True)


def environment(
    folders: BuildFolders, environ: Mapping[str, str], epoch: int | None = None
) -> dict[str, str]:
    """The environment for Apptainer: its large folders on scratch, unless the user said where.

    `epoch`, in seconds since 1970, becomes the time of everything that has none of its own
    (SOURCE_DATE_EPOCH, reproducible-builds.org; mksquashfs from 4.4 on and mmdebstrap read it).
    Without it the times of a user's own files are the user's.
    """
    ours = {
        "APPTAINER_TMPDIR": str(folders.temporary),
        "APPTAINER_CACHEDIR": str(folders.work / "apptainer-cache"),
    }
    foreign = (*FOREIGN, *CA_VARIABLES)
    kept = {name: value for name, value in environ.items() if not name.startswith(foreign)}
    # The user's own folders are kept, but not a TMPDIR, which jobs often have in memory.
    times = {} if epoch is None else {"SOURCE_DATE_EPOCH": str(epoch)}
    return {**ours, **kept, "TMPDIR": ours["APPTAINER_TMPDIR"], **times}


def authorities(site: Path) -> bytes:
    """The certificates of a site's authority and, after them, of those this machine trusts."""
    bundles = [path for path in map(Path, BUNDLES) if path.is_file()]
    return b"\n".join(path.read_bytes() for path in (site, *bundles[:1]))


@dataclass(frozen=True)
class Build:
    """One `apptainer build`: `files` are its inputs by the names that the definition uses."""

    definition: Path
    output: Path
    files: Mapping[str, Path]
    build_args: Mapping[str, str]
    binds: tuple[str, ...] = ()
    compression: str = ""


@dataclass(frozen=True)
class Apptainer:
    mode: Mode
    environ: Mapping[str, str]
    temporary: Path
    ca: Path | None = None

    @classmethod
    def here(
        cls,
        folders: BuildFolders,
        ca: Path | None = None,
        epoch: int | None = None,
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> Apptainer:
        """In the way of building that works on this machine, with more variables. Refused."""
        require()
        folders.temporary.mkdir(parents=True, exist_ok=True)  # another build may be in it
        disk_space.check_usable(disk_space.Volume.of(folders.temporary))
        environ = {**environment(folders, os.environ, epoch), **more}
        return cls(build_modes.choose(environ), environ, folders.temporary, ca)

    def build(self, build: Build, log: Path, folder: Path | None = None) -> None:
        """Build in `folder`, else in a folder of links to the inputs.

        An image keeps its definition with all arguments: links have names, not this machine's
        paths. The test is not run. Raises RunnerError.
        """
        inputs = folder or self._inputs(build)
        path = f"{self._packer()}:{self.environ.get('PATH', '')}"
        environ = {**self.environ, "PATH": path, **self._trust()}
        process.run(self.argv(build), log, environ, inputs)

    def argv(self, build: Build) -> list[str]:
        pairs = build.build_args.items()
        binds = [*build.binds, *([f"{self._ca_folder()}:{CA_FOLDER}:ro"] if self.ca else [])]
        return [
            *("apptainer", "build", *self.mode.flags, "--force", "--notest"),
            *(("--mksquashfs-args", build.compression) if build.compression else ()),
            *(("--bind", ",".join(binds)) if binds else ()),
            *(word for name, value in pairs for word in ("--build-arg", f"{name}={value}")),
            *(str(build.output), str(build.definition)),
        ]

    def run(self, command: Sequence[str], log: Path) -> None:
        """Run any command in the same environment. Raises RunnerError."""
        process.run(command, log, self.environ)

    def test(self, image: Path, log: Path, instead: Path | None = None) -> None:
        """Run the image's own %test as its users would, or a script. Raises RunnerError."""
        bind = ["--bind", f"{instead}:/.singularity.d/test:ro"] if instead else []
        self.run(["apptainer", "test", "--cleanenv", *bind, str(image)], log)

    def _inputs(self, build: Build) -> Path:
        folder = self.temporary / "inputs"
        process.empty(folder)
        for name, path in build.files.items():
            (folder / name).symlink_to(path)
        return folder

    def _packer(self) -> Path:
        folder = self.temporary / "bin"
        folder.mkdir(mode=0o755, exist_ok=True)
        script = folder / "mksquashfs"
        script.write_text(PACKER.format(folder=shlex.quote(str(folder))))
        script.chmod(0o755)
        return folder

    def _trust(self) -> dict[str, str]:
        """The site's authority, for Apptainer's own downloads and for programs in the container.

        NOTE: Apptainer (1.4) starts %post in an empty environment but for proxies and variables
        that it is given as APPTAINERENV_*; its own Go code reads SSL_CERT_FILE of the machine.
        """
        if self.ca is None:
            return {}
        folder = self._ca_folder()
        folder.mkdir(exist_ok=True)
        (folder / "ca.crt").write_bytes(authorities(self.ca))
        (folder / "apt.conf").write_text(APT_CONFIG)
        for path in (folder, *folder.iterdir()):
            path.chmod(0o755 if path.is_dir() else 0o644)  # apt reads them as another user
        inside = dict.fromkeys(CA_VARIABLES, f"{CA_FOLDER}/ca.crt")
        inside["APT_CONFIG"] = f"{CA_FOLDER}/apt.conf"
        handed_on = {f"APPTAINERENV_{name}": value for name, value in inside.items()}
        return {"SSL_CERT_FILE": str(folder / "ca.crt"), **handed_on}

    def _ca_folder(self) -> Path:
        return self.temporary / "ca"
