"""The nodes' root file system: Debian 13 with Slurm 24.11, and Apptainer from unstable."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from . import apt, host
from .processes import mounts_below
from .shell import ClusterError, run
from .state import UID, USER, State, locked

RELEASE = "trixie"
SLURM_SERIES, APPTAINER_SERIES = "24.11", "1.4"
PACKAGES = (
    # cluster
    *("slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins", "munge"),
    *("openmpi-bin", "libopenmpi40", "libpmix2t64", "tini"),
    # containers
    *("apptainer", "squashfs-tools", "squashfuse", "fuse-overlayfs", "fuse3", "uidmap"),
    *("fuse2fs", "gocryptfs"),  # Apptainer says at each start that they are missing
    *("proot", "docker-registry", "apache2-utils"),  # a build mode; a real registry, its passwords
    # building base images inside
    *("mmdebstrap", "debian-archive-keyring", "ca-certificates", "fakeroot", "xz-utils", "zstd"),
    # python and everyday tools
    *("python3", "python3-venv", "python3-pip-whl", "python3-setuptools-whl"),
    *("iproute2", "iputils-ping", "procps", "psmisc", "less", "curl", "jq", "git", "file", "nano"),
    *("openssh-client", "rsync", "strace", "bash-completion", "hostname", "netbase"),
    *("passwd", "login", "util-linux", "util-linux-extra", "mount", "libc-bin"),
)
# mount points of what each node adds to the tree
FOLDERS = ("opt/kit", "opt/installs", "scratch", "etc/slurm", "etc/munge")
# NOTE: only apptainer comes from unstable; its priority keeps everything else in the release.
PREFERENCES = "Package: *\nPin: release a=unstable\nPin-Priority: 90\n"
PROFILE = """\
export PATH=/opt/runner/bin:$PATH
if [ -d "/scratch/$USER" ]; then export RUNNER_SCRATCH="/scratch/$USER"; fi
"""
SECONDS_TO_BUILD = 900


def key() -> str:
    """Content of everything of ours that decides what is in the tree."""
    argv = mmdebstrap_argv("", Path("tree"), Path("preferences"), Path("customize"))
    inputs = "\0".join([*argv, PREFERENCES, customize_script()])
    return hashlib.sha256(inputs.encode()).hexdigest()[:16]


def ensure(state: State) -> Path:
    """The root file system's folder; built first when it is not in the cache."""
    target = state.cache / "rootfs" / key()
    if not target.exists():
        host.require()
        with locked(target.parent):
            if not target.exists():
                _build(target)
    return target


def _build(target: Path) -> None:
    for stale in target.parent.glob(f"{target.name}.*"):
        _discard(stale)  # of a build that was killed; we hold the lock
    print(f"building the nodes' root file system (about a minute): {target}", file=sys.stderr)
    began = time.monotonic()
    work = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=target.parent))
    try:
        _bootstrap(work)
        work.rename(target)
    finally:
        if work.exists():
            _discard(work)
    print(f"root file system built in {time.monotonic() - began:.0f} s", file=sys.stderr)


def _discard(tree: Path) -> None:
    """Delete half a tree, but never what the host has mounted in it."""
    if mounts := mounts_below(tree):
        raise ClusterError(f"still mounted, umount it first: {', '.join(map(str, mounts))}")
    shutil.rmtree(tree)


def _bootstrap(tree: Path) -> None:
    mirror = apt.host_mirror(os.environ)
    with tempfile.TemporaryDirectory() as folder:
        preferences, script = Path(folder, "preferences"), Path(folder, "customize.sh")
        preferences.write_text(PREFERENCES)
        script.write_text(customize_script())
        script.chmod(0o755)
        run(mmdebstrap_argv(mirror, tree, preferences, script), timeout=SECONDS_TO_BUILD)
    tree.chmod(0o755)
    _check_versions(tree)


def mmdebstrap_argv(mirror: str, tree: Path, preferences: Path, script: Path) -> list[str]:
    """The command that fills the empty folder *tree* from *mirror*."""
    signed = f"[signed-by={host.KEYRING}]"
    return [
        *("mmdebstrap", "--mode=root", "--variant=apt", "--format=directory", "--quiet"),
        f"--include={','.join(PACKAGES)}",
        "--aptopt=Acquire::Check-Valid-Until false",
        "--aptopt=Acquire::Languages none",
        "--aptopt=APT::Install-Recommends false",
        "--dpkgopt=force-unsafe-io",
        "--dpkgopt=path-exclude=/usr/share/doc/*",
        "--dpkgopt=path-exclude=/usr/share/man/*",
        "--dpkgopt=path-exclude=/usr/share/locale/*",
        f"--setup-hook=copy-in {preferences} /etc/apt/",
        f'--customize-hook={script} "$1"',
        *(RELEASE, str(tree)),
        *(f"deb {signed} {mirror} {suite} main" for suite in (RELEASE, "unstable")),
    ]


def customize_script() -> str:
    """What is done in the finished tree ($1): the user, mount points, the login profile."""
    return f"""\
#!/bin/sh
set -eu
cd "$1"
chroot . useradd --uid {UID} --create-home --shell /bin/bash {USER}
chroot . usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {USER}
mkdir -p {" ".join(FOLDERS)}
ln -s installs/current opt/runner
rm -f etc/resolv.conf etc/hosts etc/munge/munge.key
touch etc/resolv.conf etc/hosts
cat > etc/profile.d/runner.sh <<'END'
{PROFILE}END
"""


def _check_versions(tree: Path) -> None:
    wanted = {"slurmctld": SLURM_SERIES, "apptainer": APPTAINER_SERIES}
    form = "-f=${Version}"
    for package, series in wanted.items():
        found = run(["dpkg-query", f"--admindir={tree}/var/lib/dpkg", "-W", form, package])
        if not found.startswith(f"{series}."):
            raise ClusterError(
                f"the archive offers {package} {found}, the cluster is written for {series};\n"
                f"check tests/cluster against it and change the series in {Path(__file__).name}"
            )
