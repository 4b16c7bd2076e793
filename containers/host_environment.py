"""Python environments without a container: `runner build env DIR` and `build horovod --into DIR`.

`env` makes one with the packages of an image's lock and compiles Horovod against the host's own MPI
(host_horovod.py); when something fails, the new folder is removed again. `horovod` compiles it for
whatever torch and TensorFlow are there, as for images of others (foreign_horovod.py).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from runners.core import disk_space
from runners.core.disk_space import Needs
from runners.core.errors import Refused, SystemFault, UsageError

from . import (
    added_packages,
    build_steps,
    foreign_horovod,
    host_horovod,
    host_tools,
    image_catalogue,
    installed_edits,
    lockfile,
    pip,
    process,
    wheels,
)
from .build_plan import BuildOptions, BuildPlan, make
from .build_steps import BuildProgress
from .foreign_horovod import Target
from .host_horovod import Compilation
from .host_tools import Mpi
from .lockfile import normalised

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


def build(options: EnvironmentOptions, shown: BuildProgress) -> Made:
    """Make it. Raises RunnerError; what was there before is then as it was."""
    plan = make(options.image, BuildOptions(source=options.source))
    environ = host_tools.with_modules(options.modules, os.environ)
    python = _python(options, plan, environ)
    host_tools.check_compiler(environ)
    mpi = host_tools.find_mpi(options.mpi, environ)
    shown.say(f"MPI: {mpi.compiler}" if mpi else "no MPI on the PATH: Horovod has Gloo alone")
    log = process.fresh_log(plan.folders.logs / "environment-on-the-host.log")
    with process.only_build(plan.folders.work, shown):
        with process.emptied(plan.folders.temporary) as work:
            wanted = host_tools.library(mpi, environ, work) if mpi else ""
        if not plan.wheels.exists():
            with shown.phase("wheels", partial(build_steps.fetched, plan.wheels)):
                wheels.fetch(plan.image, options.source, plan.wheels)
        compilation = Compilation(plan.image, python, plan.wheels, mpi, environ, wanted)
        with shown.phase("Horovod wheel", partial(build_steps.last_line, log)):
            temporary = plan.folders.temporary
            disk_space.require(temporary, NEEDS, shown.say)
            wheel = host_horovod.compiled(compilation, plan.folders.builds, temporary, log)
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
        raise UsageError(what, remedy=remedy, id="environment-not-new")
    version = plan.image.python
    python = host_tools.find_python(version, environ)
    host_tools.check_python(python, version)
    return python


def existing_python(folder: Path) -> Path:
    """Return the Python of an environment that is there. Raises UsageError."""
    python = folder / "bin" / "python"
    if not os.access(python, os.X_OK):
        raise UsageError(
            f"--into: {folder} is no environment: {python} is not there", id="not-an-environment"
        )
    return python


def packages(python: Path, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the packages that a Python sees, with their versions, by normalised name."""
    command = [str(python), "-c", added_packages.PROBE]
    done = subprocess.run(command, env=dict(environ), capture_output=True, text=True)
    if done.returncode:
        raise Refused(f"{python} does not run", done.stderr.strip(), id="environment-python-broken")
    listed = json.loads(done.stdout.splitlines()[-1])["packages"]
    return {normalised(name): version for name, version in listed.items()}


def _fill(
    options: EnvironmentOptions, plan: BuildPlan, python: Path, horovod: Path, log: Path
) -> None:
    process.run([str(python), "-m", "venv", str(options.folder)], log, os.environ)
    (wheel,) = horovod.glob("*.whl")
    wanted = process.fresh_log(plan.folders.temporary / "requirements.txt")
    wanted.write_text(lockfile.lines([*lockfile.read(plan.lock), lockfile.pin_of(wheel)]))
    arguments = ["--require-hashes", f"--requirement={wanted}", f"--find-links={horovod}"]
    host_horovod.install(options.folder, plan.wheels, arguments, log)
    (site,) = options.folder.glob("lib/python3.*/site-packages")
    program = [str(options.folder / "bin" / "python"), "-m", installed_edits.__name__]
    process.run([*program, str(site)], log, os.environ, image_catalogue.CHECKOUT)


def add_horovod(options: EnvironmentOptions, shown: BuildProgress) -> Made:
    """Compile Horovod for what an environment has, and install it; replace no package there.

    Raises RunnerError.
    """
    folder, python = options.folder, existing_python(options.folder)
    folders = make("cpu", BuildOptions(source=options.source)).folders
    log = process.fresh_log(folders.logs / "horovod-into-environment.log")
    with process.only_build(folders.work, shown), process.emptied(folders.temporary) as work:
        disk_space.require(folders.temporary, NEEDS, shown.say)
        environ, mpi = _active(options, work)
        installed = packages(python, environ)
        horovod = foreign_horovod.build_for(_target(folder, python, environ), installed)
        horovod = replace(horovod, stage=str(work))
        wanted = host_tools.library(mpi, environ, work) if mpi and horovod.mpi else ""
        shown.say(f"MPI: {mpi.compiler}" if mpi else "no MPI on the PATH: Horovod has Gloo alone")
        run = partial(process.run, environ=environ)
        pip = [*host_horovod.pip(folder, isolated=False), "--no-input"]
        with shown.phase("Horovod wheel", partial(build_steps.last_line, log)):
            source = options.source.options()
            wheel = horovod.compile(run, [], pip, work, log, source)
        with shown.phase("environment", partial(build_steps.last_line, log)):
            kept = work / "constraints.txt"
            kept.write_text(added_packages.constraints(installed))
            run([*pip, "install", *source, f"--constraint={kept}", wheel], log)
    library = host_horovod.linked(folder, environ)
    if wanted and mpi:
        host_tools.check_linked(mpi, wanted, library)
    shown.say(horovod.summary())
    return Made(environ, library, horovod.imports())


def _active(options: EnvironmentOptions, work: Path) -> tuple[dict[str, str], Mpi | None]:
    """Return the variables with modules loaded and the environment first, and the MPI."""
    loaded = host_tools.with_modules(options.modules, os.environ)
    search_path = f"{options.folder / 'bin'}{os.pathsep}{loaded.get('PATH', os.defpath)}"
    environ = {**loaded, "PATH": search_path, "PYTHONPATH": ""}
    mpi = host_tools.find_mpi(options.mpi, environ)
    if mpi:
        tools = work / "bin"
        tools.mkdir()
        environ.update(mpi.variables(tools, search_path))
    return environ, mpi


def _target(folder: Path, python: Path, environ: Mapping[str, str]) -> Target:
    def ask(*words: str) -> subprocess.CompletedProcess[str]:
        command = [str(python), "-s", *words]
        return subprocess.run(command, env=dict(environ), capture_output=True, text=True)

    tools = "--module, of a compiler or an MPI"
    if (folder / "conda-meta").is_dir():
        tools = f"conda install -p {folder} gxx_linux-64 make openmpi-mpicxx"
    again = f"{python} -m pip uninstall horovod, then the same command again"
    return Target(str(folder), ask, again, f"{python} -m pip install torch", tools)


def prove(folder: Path, made: Made) -> None:
    """Let Horovod load with each framework; raise SystemFault with what it says."""
    command = [str(folder / "bin" / "python"), "-c", made.test]
    done = subprocess.run(command, env=dict(made.environ), capture_output=True, text=True)
    if done.returncode:
        raise SystemFault(
            f"Horovod does not load in {folder}", done.stderr[-2000:], id="horovod-does-not-load"
        )
