"""The nodes' root file systems: one for each Debian release, and Apptainer from unstable."""

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
from .releases import LMOD, RELEASES, Release
from .shell import ClusterError, run
from .state import UID, USER, State, locked

APPTAINER = ("apptainer", "1.4.")
# mount points of what each node adds to the tree
FOLDERS = ("opt/kit", "opt/installs", "scratch", "etc/slurm", "etc/munge")
PROFILE = """\
export PATH=/opt/runner/bin:$PATH
if [ -d "/scratch/$USER" ]; then export RUNNER_SCRATCH="/scratch/$USER"; fi
"""
SECONDS_TO_BUILD = 900


def key(release: Release) -> str:
    """Content of everything of ours that decides what is in the tree of *release*."""
    argv = mmdebstrap_argv(release, "", Path("tree"), Path("preferences"), Path("customize"))
    inputs = "\0".join([*argv, release.preferences(), customize_script(release)])
    return hashlib.sha256(inputs.encode()).hexdigest()[:16]


def ensure(state: State, name: str) -> Path:
    """The folder of release *name*'s root file system; built first when it is not in the cache."""
    release = RELEASES[name]
    target = state.cache / "rootfs" / key(release)
    if not target.exists():
        host.require()
        with locked(target.parent):
            if not target.exists():
                _build(release, target)
    return target


def _build(release: Release, target: Path) -> None:
    for stale in target.parent.glob(f"{target.name}.*"):
        _discard(stale)  # of a build that was killed; we hold the lock
    print(f"building the nodes' root file system (about a minute): {target}", file=sys.stderr)
    began = time.monotonic()
    work = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=target.parent))
    try:
        _bootstrap(release, work)
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


def _bootstrap(release: Release, tree: Path) -> None:
    mirror = apt.host_mirror(os.environ)
    with tempfile.TemporaryDirectory() as folder:
        preferences, script = Path(folder, "preferences"), Path(folder, "customize.sh")
        preferences.write_text(release.preferences())
        script.write_text(customize_script(release))
        script.chmod(0o755)
        argv = mmdebstrap_argv(release, mirror, tree, preferences, script)
        run(argv, timeout=SECONDS_TO_BUILD)
    tree.chmod(0o755)
    _check_versions(release, tree)


def mmdebstrap_argv(
    release: Release, mirror: str, tree: Path, preferences: Path, script: Path
) -> list[str]:
    """The command that fills the empty folder *tree* with *release* from *mirror*."""
    signed = f"[signed-by={host.KEYRING}]"
    return [
        *("mmdebstrap", "--mode=root", "--variant=apt", "--format=directory", "--quiet"),
        f"--include={','.join(release.packages)}",
        "--aptopt=Acquire::Check-Valid-Until false",
        "--aptopt=Acquire::Languages none",
        "--aptopt=APT::Install-Recommends false",
        "--dpkgopt=force-unsafe-io",
        "--dpkgopt=path-exclude=/usr/share/doc/*",
        "--dpkgopt=path-exclude=/usr/share/man/*",
        "--dpkgopt=path-exclude=/usr/share/locale/*",
        f"--setup-hook=copy-in {preferences} /etc/apt/",
        f'--customize-hook={script} "$1"',
        *(release.name, str(tree)),
        *(f"deb {signed} {mirror} {suite} main" for suite in release.suites),
    ]


def customize_script(release: Release) -> str:
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
rm -f etc/profile.d/modules.*  # `module` only where the site has it
touch etc/resolv.conf etc/hosts
cat > etc/profile.d/runner.sh <<'END'
{PROFILE}END
{LMOD}{release.customize}"""


def _check_versions(release: Release, tree: Path) -> None:
    form = "-f=${Version}"
    for package, series in (*release.series, APPTAINER):
        found = run(["dpkg-query", f"--admindir={tree}/var/lib/dpkg", "-W", form, package])
        if not found.startswith(series):
            raise ClusterError(
                f"the archive's {release.name} offers {package} {found}, "
                f"the cluster is written for {series}\n"
                "check tests/cluster against it and change the series in releases.py"
            )
