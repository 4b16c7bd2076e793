"""The environment of a launch that names no image: the Python of modules, or the active one.

An environment is active by VIRTUAL_ENV or CONDA_PREFIX. Modules are loaded in a login shell, as in
a job. This machine answers for the nodes: there the job takes the Python that the modules bring, at
whatever path.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from containers import host_tools

from ...core.errors import UsageError
from ...core.model import ACTIVE, BY_MODULES, ImageInfo
from ...script.environment import LEAKS
from . import digest_cache, environment

SYSTEM = ("/bin", "/usr/bin", "/usr/local/bin")
# Of the variables that modules set, those that decide which packages and libraries are found.
PATHS = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "EBPYTHONPREFIXES")

WAYS = "activate a virtual or conda environment\n--module NAME, of a Python\n--image DIR"


@dataclass(frozen=True)
class LoadedModules:
    """What the job's script loads."""

    names: tuple[str, ...] = ()
    use: tuple[str, ...] = ()
    purge: bool = False

    def environ(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the environment with the modules loaded. Raises UsageError."""
        clean = {name: text for name, text in environ.items() if name not in LEAKS}
        before = ["module purge"] if self.purge else []
        before += [f"module use {shlex.quote(folder)}" for folder in self.use]
        return host_tools.with_modules(self.names, clean, before)


def find(
    modules: LoadedModules, runtime: str, environ: Mapping[str, str] = os.environ
) -> ImageInfo:
    """Return the environment; modules with a framework come before the active one.

    A virtual environment is often made with the Python of a module, which then has no framework.
    Under --runtime auto an active environment without a framework is not meant, as that in which
    runner is installed. Raises UsageError, with what was looked at, where there is none.
    """
    by_modules = _of_modules(modules, environ) if modules.names else None
    if by_modules and _has_framework(by_modules):
        return by_modules
    active = _active(environ)
    if active and (runtime == "none" or _has_framework(active)):
        return active
    if by_modules:
        return by_modules
    ways = WAYS if runtime == "none" else "--image horovod_cpu.sif"
    raise UsageError("no image was given", "\n".join(_looked_at(modules, active)), ways)


def _looked_at(modules: LoadedModules, active: ImageInfo | None) -> list[str]:
    lines = []
    if modules.names:
        lines.append(f"--module {' '.join(modules.names)} brings no Python")
    if active:
        lines.append(f"{active.brought_by}={active.path} has neither torch nor TensorFlow")
    return lines


def _active(environ: Mapping[str, str]) -> ImageInfo | None:
    for name in ACTIVE:
        folder = Path(environ.get(name) or "/nowhere")
        if environment.is_one(folder):
            image = replace(environment.image(str(folder), "none"), brought_by=name)
            known = {} if image.ours else environment.facts(image.path)
            return replace(image, found={**known, **image.found})
    return None


def _of_modules(modules: LoadedModules, environ: Mapping[str, str]) -> ImageInfo | None:
    """Return what the modules give; None where their python3 is the system's, ours or active."""
    loaded = modules.environ(environ)
    python = shutil.which("python3", path=loaded.get("PATH", os.defpath))
    of_active = [f"{environ[name]}/bin" for name in ACTIVE if environ.get(name)]
    if python is None or os.path.dirname(python) in (*SYSTEM, *of_active):
        return None
    key = _key(python, loaded)
    facts = digest_cache.content(key, lambda: environment.probe_path(loaded, python))
    image = ImageInfo(Path(python).parent.parent, found=facts, brought_by=BY_MODULES)
    runners_own = os.path.dirname(python) == os.path.join(sys.prefix, "bin")
    return None if runners_own and not _has_framework(image) else image


def _key(python: str, loaded: Mapping[str, str]) -> str:
    parts = [f"{name}={loaded.get(name, '')}" for name in PATHS]
    folders = [Path(text) for text in loaded.get("PYTHONPATH", "").split(":") if text]
    own = Path(python).parent.parent.glob("lib/python3*/site-packages")
    return environment.key_of(parts, [*folders, *own])


def _has_framework(image: ImageInfo) -> bool:
    return any(
        image.fact(f"{name}.version") not in ("", "none") for name in ("torch", "tensorflow")
    )
