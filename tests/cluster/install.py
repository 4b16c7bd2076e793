"""The checkout's `runner` in a virtual environment at /opt/runner of every node.

/opt/runner is a link to /opt/installs/current, and `current` a link to a folder named after the
content it was made from: a new version is one rename, and nothing is done twice.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from . import rootfs, toolbox
from .namespaces import Bind
from .releases import RELEASES
from .shell import run
from .state import CHECKOUT, State, locked

SOURCES = ("containers", "runners", "recipes", "addons/*/runner_*")
KEPT = 6  # older installs are deleted; programs may still run from the younger ones
GLIBC = ("2014", "_2_17", "_2_27", "_2_28")  # of the platforms whose wheels the tree can run
# The tree's Python, and what it needs: README's own line installs the add-ons too.
READ_DEPENDENCIES = """\
import glob, json, sys, tomllib
needs = {}
for path in ["/opt/kit/pyproject.toml", *sorted(glob.glob("/opt/kit/addons/*/pyproject.toml"))]:
    with open(path, "rb") as file:
        data = tomllib.load(file)
    needs |= dict.fromkeys(data["project"]["dependencies"] + data["build-system"]["requires"])
print(json.dumps(["%d.%d" % sys.version_info[:2], *needs]))
"""
# NOTE: venv refuses a link as its folder, so here /opt/runner is the folder itself.
AT_RUNNER = """\
set -eu
rm /opt/runner
mkdir /opt/runner
mount --bind /opt/installs/environment /opt/runner
"""
MAKE_BASE = f"""\
{AT_RUNNER}
python3 -m venv /opt/runner
/opt/runner/bin/pip install -q --no-index --find-links /mnt -- "$@"
"""
ADD_PROJECT = f"""\
{AT_RUNNER}
mkdir /tmp/source
cd /opt/kit
cp -r pyproject.toml LICENSE containers runners recipes /tmp/source
cp -r --parents addons/*/{{pyproject.toml,README.md,runner_*}} /tmp/source
touch /tmp/source/README.md  # setuptools wants it, the installed command does not
cd /tmp/source
/opt/runner/bin/pip install -q --no-index --no-deps --no-build-isolation . ./addons/*
"""


def refresh(state: State) -> bool:
    """Make /opt/runner hold this checkout; False when it did already.

    Raises ClusterError with pip's message when a dependency or the project cannot be installed.
    """
    state.create_shared()
    wanted = f"runner-{_key(state, _project_files())}"
    current = state.installs / "current"
    if current.is_symlink() and os.readlink(current) == wanted:
        return False
    if not (state.installs / wanted).exists():
        _bring(_environment(state, wanted), state.installs / wanted)
    _point(current, wanted)
    _prune(state.installs, keep=wanted)
    return True


def _environment(state: State, name: str) -> Path:
    """The environment with this checkout, made once for all clusters."""
    target = state.environments / name
    if not target.exists():
        base = _base(state)
        with locked(state.environments):
            if not target.exists():
                _make(state, target, ADD_PROJECT, [], base=base)
                _prune(state.environments, keep=name)
    return target


def _bring(source: Path, target: Path) -> None:
    """Show *source* in a cluster's folder as hard links, or as a copy where that is another disk.

    Links outlive the source: other clusters' installs may prune it.
    """
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="part-") as folder:
        part = Path(folder, "environment")
        shutil.copytree(source, part, symlinks=True, copy_function=_link)
        part.rename(target)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        shutil.copy2(source, target)


def _project_files() -> list[Path]:
    folders = [folder for source in SOURCES for folder in CHECKOUT.glob(source)]
    found = [path for folder in folders for path in folder.rglob("*")]
    sources = [p for p in found if p.is_file() and "__pycache__" not in p.parts]
    return [*_projects(), *sorted(sources)]


def _projects() -> list[Path]:
    """The files that say what the kit and its add-ons need."""
    return [CHECKOUT / "pyproject.toml", *sorted(CHECKOUT.glob("addons/*/pyproject.toml"))]


def _key(state: State, files: Iterable[Path]) -> str:
    tree = rootfs.key(RELEASES[state.design.release])  # another release, another Python
    digest = hashlib.sha256((tree + READ_DEPENDENCIES + MAKE_BASE + ADD_PROJECT).encode())
    for path in files:
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path.relative_to(CHECKOUT)} {content}\n".encode())
    return digest.hexdigest()[:16]


def _base(state: State) -> Path:
    """An environment with the dependencies, by the content of the projects; for all clusters."""
    target = state.environments / _key(state, _projects())
    if not target.exists():
        with locked(state.environments):
            if not target.exists():
                version, *dependencies = _dependencies(state)
                wheels = _wheels(state, version, dependencies)
                _make(state, target, MAKE_BASE, dependencies, binds=[Bind(wheels, "/mnt")])
    return target


def _dependencies(state: State) -> list[str]:
    """Return the version of the tree's Python, and the packages that it needs."""
    # Asked of the tree's Python: the host's may be older than tomllib (3.11).
    found = run(toolbox.argv(state, ["python3", "-c", READ_DEPENDENCIES], "root"))
    return [str(item) for item in json.loads(found)]


def download(folder: Path, version: str, packages: Sequence[str]) -> None:
    """Fetch wheels for a version of Python, by the host's pip with the host's own configuration."""
    words = ["--only-binary=:all:", "--python-version", version, "--dest", str(folder)]
    words += [f"--platform=manylinux{glibc}_{platform.machine()}" for glibc in GLIBC]
    run([sys.executable, "-m", "pip", "download", "--quiet", *words, *packages])


def _wheels(state: State, version: str, dependencies: Sequence[str]) -> Path:
    """A folder with the wheels of these packages and of all that they need."""
    name = hashlib.sha256("\n".join([version, *dependencies]).encode()).hexdigest()[:16]
    target = state.cache / "wheels" / f"runner-{name}"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            part = Path(folder, "part")
            download(part, version, dependencies)
            part.rename(target)
    return target


def _make(
    state: State,
    target: Path,
    script: str,
    words: Sequence[str],
    base: Path | None = None,
    binds: Sequence[Bind] = (),
) -> None:
    """Run *script* with /opt/runner as an empty folder or a copy of *base*; keep it as *target*."""
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="part-") as folder:
        part = Path(folder)
        part.chmod(0o755)
        if base:
            shutil.copytree(base, part / "environment", symlinks=True)
        else:
            (part / "environment").mkdir()
        command = ["bash", "-c", script, "bash", *words]
        all_binds = [Bind(part, "/opt/installs", read_only=False), *binds]
        run(toolbox.argv(state, command, "root", all_binds))
        (part / "environment").rename(target)


def _point(link: Path, target: str) -> None:
    part = link.with_name("current.part")
    part.unlink(missing_ok=True)
    part.symlink_to(target)
    part.replace(link)


def _prune(folder: Path, keep: str) -> None:
    made = sorted(folder.glob("runner-*"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in made[KEPT:]:
        if path.name != keep:
            shutil.rmtree(path)
