"""Which way of building works here, found by building something tiny in each way.

An ordinary user builds in one of four ways (Apptainer's user guide, "Fakeroot feature" and
"Unprivileged proot builds"); which of them a machine allows is its administrator's choice.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runners.core.errors import Refused
from runners.core.machine import MACHINES, architecture

from . import process

# A marker of ours in the output, then who %post is, how ids are mapped, and whether it may give a
# file to somebody else, which every installation of packages does.
PROBE = """\
Bootstrap: localimage
From: root
%post
    echo "probe id $(id -u)"
    sed 's/^/probe map /' /proc/self/uid_map
    touch /opt/probe
    if chown 1:1 /opt/probe; then echo "probe chown yes"; fi
"""
SYSTEM = ("bin", "sbin", "lib", "lib64", "usr")
SECONDS = 60
NONE_WORKS = """\
no way to build images works here for {user}.
{evidence}
What changes that:
  {command}
Or use a finished image: runner pull --help"""
# Settings of the kernel on user namespaces: the value that is in the way, and a better one.
OBSTACLES = (
    ("kernel.unprivileged_userns_clone", "0", "1"),
    ("user.max_user_namespaces", "0", "15000"),
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
)
# --fakeroot takes subordinate ids or a root-mapped namespace; without it Apptainer may use proot.
FLAGS: tuple[tuple[str, ...], ...] = (("--fakeroot",), ())
MOUNTS = Path("/proc/self/mountinfo")
ROOT_MOUNT = re.compile(r"^(?:\S+ ){4}/ ", re.MULTILINE)  # proc(5): the fifth field
OF_CONTAINERS = (Path("/.dockerenv"), Path("/run/.containerenv"))  # Docker's and Podman's
BINFMT = Path("/proc/sys/fs/binfmt_misc")
EMULATION = "apt-get install qemu-user-static binfmt-support (as root), or build on such a machine"


@dataclass(frozen=True)
class Mode:
    """A way of building that was seen to work."""

    name: str
    flags: tuple[str, ...]
    evidence: str
    subordinate_ids: bool

    @property
    def said(self) -> str:
        return f"build mode: {self.name} ({self.evidence})"


def choose(environ: Mapping[str, str]) -> Mode:
    """The first way that works. Refused, with what changes that, if none does."""
    failed = []
    for flags in FLAGS:
        mode, answer = attempt(flags, environ)
        if mode:
            return mode
        failed.append(f"  apptainer build {' '.join(flags) or '(no flag)'}: {answer}")
    raise Refused(
        NONE_WORKS.format(
            user=environ.get("USER", "this user"),
            evidence="\n".join(failed),
            command=remedy(settings(), environ.get("USER") or str(os.geteuid())),
        ),
        id="no-build-mode",
    )


def attempt(flags: tuple[str, ...], environ: Mapping[str, str]) -> tuple[Mode | None, str]:
    """Build an image whose system folders are this machine's own, bound into an empty tree.

    The way of building if that worked, and what was seen.
    """
    folder = Path(tempfile.mkdtemp(prefix="mode-", dir=environ.get("APPTAINER_TMPDIR")))
    try:
        binds = make_tree(folder / "root")
        (folder / "probe.def").write_text(PROBE)
        words = [*flags, "--bind", ",".join(binds), "probe.sif", "probe.def"]
        done = subprocess.run(
            ["apptainer", "build", *words],
            cwd=folder,
            env={**environ, "SOURCE_DATE_EPOCH": "0"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        return None, f"no end after {SECONDS} s"
    finally:
        process.remove(folder)
    mode = judge(flags, done.returncode, done.stdout)
    lines = done.stdout.splitlines() or ["no output"]
    last = [*lines[-1:], *(line for line in lines if line.startswith(("FATAL", "ERROR")))][-1]
    return mode, f"{mode.name}: {mode.evidence}" if mode else last


def make_tree(root: Path) -> list[str]:
    """An empty root file system at `root`; the binds that fill it."""
    for name in ("etc", "opt", "tmp", "proc", "sys", "dev", "root", "var/tmp", "home"):
        (root / name).mkdir(parents=True)
    binds = []
    for name in SYSTEM:
        host = Path("/", name)
        if host.is_symlink():
            (root / name).symlink_to(os.readlink(host))
        elif host.is_dir():
            (root / name).mkdir()
            binds.append(f"{host}:{host}:ro")
    return binds


def judge(flags: tuple[str, ...], code: int, output: str) -> Mode | None:
    """What a tiny build showed; None when it failed."""
    facts = [line[6:].split() for line in output.splitlines() if line.startswith("probe ")]
    if code or ["id", "0"] not in facts:
        return None
    maps = [fact[1:] for fact in facts if fact[0] == "map"]
    chown = ["chown", "yes"] in facts
    ranges = ", ".join(" ".join(part) for part in maps)
    if len(maps) > 1:
        return Mode("fakeroot with subordinate ids", flags, f"uid map: {ranges}", True)
    if not flags and maps and int(maps[0][2]) > 1:
        return Mode("proot", flags, f"root without a user namespace ({ranges})", False)
    how = "files can be given away by fakeroot(1)" if chown else "all files belong to one user"
    return Mode("root-mapped namespace", flags, f"uid map: {ranges}; {how}", False)


def settings() -> dict[str, str]:
    """What the kernel says on user namespaces, of the settings that it has."""
    paths = {name: Path("/proc/sys", name.replace(".", "/")) for name, _, _ in OBSTACLES}
    return {name: path.read_text().strip() for name, path in paths.items() if path.is_file()}


def remedy(settings_now: Mapping[str, str], user: str) -> str:
    """What to do: mostly the one command that an administrator has to run."""
    for name, value, wanted in OBSTACLES:
        if settings_now.get(name) == value:
            return f"sudo sysctl -w {name}={wanted}"
    if _confined():
        return "leave this container or chroot, in which no user namespace can be made"
    if shutil.which("newuidmap") is None:
        return "sudo apt-get install uidmap    (on RPM systems: sudo dnf install shadow-utils)"
    return f"sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {user}"


def _confined() -> bool:
    """Whether a container or chroot is seen, and no namespace can be made: clone(2), seccomp."""
    mounts = MOUNTS.read_text() if MOUNTS.is_file() else ""
    chroot = bool(mounts) and not ROOT_MOUNT.search(mounts)
    if not chroot and not any(sign.exists() for sign in OF_CONTAINERS):
        return False
    if shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "--user", "true"], capture_output=True).returncode != 0


def needs_emulation(wanted: str) -> bool:
    """Whether programs for this architecture need emulation here. Refused when there is none."""
    if wanted == architecture():
        return False
    interpreter = f"qemu-{MACHINES[wanted]}"
    line = re.compile(rf"^interpreter \S*{interpreter}(-static)?$", re.MULTILINE)
    entries = [path.read_text() for path in BINFMT.glob("*qemu*")]
    if not any(text.startswith("enabled") and line.search(text) for text in entries):
        what = f"this machine, {architecture()}, runs no programs for {wanted}"
        raise Refused(what, f"{BINFMT} has no {interpreter}", EMULATION, id="emulation-missing")
    return True
