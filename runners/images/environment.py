"""What is in a virtual or conda environment on this machine: for jobs without a container."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from ..core import shell
from ..core.errors import SystemFault
from . import digest_cache, probe


def is_one(folder: Path) -> bool:
    """Whether a folder has a Python of its own, and is not an unpacked image."""
    return (
        os.access(folder / "bin" / "python", os.X_OK) and not (folder / ".singularity.d").exists()
    )


def known(folder: Path) -> bool:
    """Whether the facts are remembered, so that asking takes no time."""
    return bool(digest_cache.recall_content(_key(folder)))


def facts(folder: Path) -> dict[str, str]:
    """Return the facts under the names of our images' labels; remembered until packages change.

    MPI is what the user's PATH has here, as the job's modules should have it. Raises SystemFault
    when the Python does not run.
    """
    key = _key(folder)
    found = digest_cache.recall_content(key)
    if not found:
        found = _look(folder)
        digest_cache.remember_content(key, found)
    return found


def _look(folder: Path) -> dict[str, str]:
    env = {**os.environ, "PATH": _path(folder)}
    for name in ("PYTHONPATH", "PYTHONHOME"):
        env.pop(name, None)
    code = Path(probe.__file__).with_name("probe_python.py").read_text(encoding="utf-8")
    argv = ["/bin/sh", "-c", probe.SCRIPT, "sh", code]
    done = shell.run(argv, env=env, timeout=probe.SECONDS)
    found = probe.parse(done.out) if "== end" in done.out else {}
    if "python.version" not in found:
        raise SystemFault(f"the Python in {folder} does not run", done.err)
    if found.get("horovod.version") != "none":
        built = shell.run(["horovodrun", "--check-build"], env=env, timeout=probe.SECONDS)
        found.update(probe.parse_build(built.out))
    return found


def _path(folder: Path) -> str:
    return f"{folder}/bin:{os.environ.get('PATH', os.defpath)}"


def _key(folder: Path) -> str:
    """Name the environment by its installed packages, its Python and the MPI on the PATH."""
    parts = [str(folder), str((folder / "bin" / "python").resolve())]
    parts.append(str(shutil.which("mpirun")))
    for package in sorted(folder.glob("lib/python3*/site-packages/*-info")):
        parts.append(f"{package.name} {package.stat().st_mtime_ns}")
    return "environment-" + hashlib.sha256("\n".join(parts).encode()).hexdigest()
