"""Makes an environment without a container from an image's lock: `runner build env`.

Its Horovod is compiled against the host's own MPI (host_horovod.py). When something fails, the new
folder is removed again.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from runners.core import digest, disk_space
from runners.core.disk_space import Needs
from runners.core.errors import Refused, SystemFault, UsageError

from . import (
    added_packages,
    build_steps,
    catalogue,
    foreign_horovod,
    host_horovod,
    host_tools,
    installed_edits,
    lockfile,
    pip,
    process,
    wheels,
)
from .build_steps import Progress
from .host_horovod import Compilation
from .lockfile import Pin, normalised
from .plan import BuildOptions, BuildPlan, make

NEEDS = Needs(8 * 10**9, 150_000)  # measured: 3.0 GB in the environment, as much to compile


@dataclass(frozen=True)
class EnvironmentOptions:
    """A folder, an image's lock, and what of the host is used."""

    folder: Path
    image: str = "cpu"
    mpi: str = ""
    modules: tuple[str, ...] = ()
    source: pip.PackageSource = field(default_factory=pip.PackageSource)


@dataclass(frozen=True)
class Made:
    """What was made: the variables with the modules loaded, the MPI library, "" for none.

    `test` is the program that imports Horovod with each of its frameworks.
    """

    environ: Mapping[str, str]
    library: str
    test: str


def build(options: EnvironmentOptions, shown: Progress) -> Made:
    """Make it. Raises RunnerError; what was there before is then as it was."""
    plan = make(options.image, BuildOptions(source=options.source))
    environ = host_tools.with_modules(options.modules, os.environ)
    python = _python(options, plan, environ)
    host_tools.check_compiler(environ)
    mpi = host_tools.find_mpi(options.mpi, environ)
    shown.say(f"MPI: {mpi.compiler}" if mpi else "no MPI on the PATH: Horovod has Gloo alone")
    log = process.fresh_log(plan.places.logs / "environment-on-the-host.log")
    with process.only_build(plan.places.work, shown):
        with process.emptied(plan.places.temporary) as work:
            wanted = host_tools.library(mpi, environ, work) if mpi else ""
        if not plan.wheels.exists():
            with shown.phase("wheels", partial(build_steps.fetched, plan.wheels)):
                wheels.fetch(plan.image, options.source, plan.wheels)
        compilation = Compilation(plan.image, python, plan.wheels, mpi, environ, wanted)
        with shown.phase("Horovod wheel", partial(build_steps.last_line, log)):
            temporary = plan.places.temporary
            disk_space.require(temporary, NEEDS, shown.say)
            wheel = host_horovod.compiled(compilation, plan.places.builds, temporary, log)
        with shown.phase("environment", partial(build_steps.last_line, log)):
            _fill(options, plan, python, wheel, log)
    library = host_horovod.linked(options.folder, environ)
    if mpi:
        host_tools.check_linked(mpi, wanted, library)
    return Made(environ, library, _imports(plan))


def _imports(plan: BuildPlan) -> str:
    """Return the program that imports Horovod with each framework of the lock."""
    locked = {pin.name for pin in lockfile.read(plan.lock)}
    known = foreign_horovod.FRAMEWORKS.items()
    modules = [f"horovod.{module}" for package, (module, _) in known if package in locked]
    return f"import {', '.join(modules)}"


@contextmanager
def kept(options: EnvironmentOptions) -> Iterator[None]:
    """Take out again what was made when what follows fails, or is interrupted.

    Of an environment that was there that is Horovod, without which the same can be asked again.
    """
    folder, existed = options.folder, options.folder.exists()
    fresh, had_horovod = _is_fresh(folder), _has_horovod(folder)
    try:
        yield
    except BaseException:
        if fresh:
            shutil.rmtree(folder, ignore_errors=True)
        if fresh and existed:
            folder.mkdir()
        elif not had_horovod and _has_horovod(folder):
            command = [*host_horovod.pip(folder), "uninstall", "--yes", "horovod"]
            subprocess.run(command, stdout=subprocess.DEVNULL, check=False)  # says itself why not
        raise


def _is_fresh(folder: Path) -> bool:
    return not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))


def _has_horovod(folder: Path) -> bool:
    return any(folder.glob("lib/python3*/site-packages/horovod-*"))


def _python(options: EnvironmentOptions, plan: BuildPlan, environ: Mapping[str, str]) -> Path:
    """Return the Python to compile for."""
    if not _is_fresh(options.folder):
        what = f"{options.folder} is there already, and not empty"
        remedy = f"a new folder; for an environment: runner build horovod --into {options.folder}"
        raise UsageError(what, remedy=remedy)
    version = plan.image.python
    python = host_tools.find_python(version, environ)
    host_tools.check_python(python, version)
    return python


def existing_python(folder: Path) -> Path:
    """Return the Python of an environment that is there. Raises UsageError."""
    python = folder / "bin" / "python"
    if not os.access(python, os.X_OK):
        raise UsageError(f"--into: {folder} is no environment: {python} is not there")
    return python


def packages(python: Path, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the packages that a Python sees, with their versions, by normalised name."""
    command = [str(python), "-c", added_packages.PROBE]
    done = subprocess.run(command, env=dict(environ), capture_output=True, text=True)
    if done.returncode:
        raise Refused(f"{python} does not run", done.stderr.strip())
    listed = json.loads(done.stdout.splitlines()[-1])["packages"]
    return {normalised(name): version for name, version in listed.items()}


def _fill(
    options: EnvironmentOptions, plan: BuildPlan, python: Path, horovod: Path, log: Path
) -> None:
    process.run([str(python), "-m", "venv", str(options.folder)], log, os.environ)
    (wheel,) = horovod.glob("*.whl")
    own = Pin("horovod", wheel.name.split("-")[1], digest.sha256(wheel))
    wanted = process.fresh_log(plan.places.temporary / "requirements.txt")
    wanted.write_text(lockfile.lines([*lockfile.read(plan.lock), own]))
    what = ["--require-hashes", f"--requirement={wanted}", f"--find-links={horovod}"]
    host_horovod.install(options.folder, plan.wheels, what, log)
    (site,) = options.folder.glob("lib/python3.*/site-packages")
    program = [str(options.folder / "bin" / "python"), "-m", installed_edits.__name__]
    process.run([*program, str(site)], log, os.environ, catalogue.CHECKOUT)


def prove(folder: Path, made: Made) -> None:
    """Let Horovod load with each framework; raise SystemFault with what it says."""
    command = [str(folder / "bin" / "python"), "-c", made.test]
    done = subprocess.run(command, env=dict(made.environ), capture_output=True, text=True)
    if done.returncode:
        raise SystemFault(f"Horovod does not load in {folder}", done.stderr[-2000:])
