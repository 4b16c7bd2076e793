"""Compiles our Horovod into an environment that is there: `runner build horovod --into DIR`.

It is for whatever torch and TensorFlow the environment has, by the code for images of others
(foreign_horovod.py), with the MPI and the compilers of this machine or of the environment. No
package that is there is replaced.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from runners.core import disk_space

from . import added_packages, build_steps, foreign_horovod, host_horovod, host_tools, process
from .build_steps import Progress
from .foreign_horovod import Horovod, Target
from .host_environment import NEEDS, EnvironmentOptions, Made, existing_python, packages
from .host_tools import Mpi
from .plan import BuildOptions, make


def build(options: EnvironmentOptions, shown: Progress) -> tuple[Made, Horovod]:
    """Compile and install it; return what Horovod was compiled for too. Raises RunnerError."""
    folder, python = options.folder, existing_python(options.folder)
    places = make("cpu", BuildOptions(source=options.source)).places
    log = process.fresh_log(places.logs / "horovod-into-environment.log")
    with process.only_build(places.work, shown), process.emptied(places.temporary) as work:
        disk_space.require(places.temporary, NEEDS, shown.say)
        environ, mpi = _environment(options, work)
        installed = packages(python, environ)
        horovod = foreign_horovod.find(_target(folder, python, environ), installed)
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
    return Made(environ, library, horovod.imports()), horovod


def _environment(options: EnvironmentOptions, work: Path) -> tuple[dict[str, str], Mpi | None]:
    """Return the variables with modules loaded and the environment first, and the MPI."""
    loaded = host_tools.with_modules(options.modules, os.environ)
    own = f"{options.folder / 'bin'}{os.pathsep}{loaded.get('PATH', os.defpath)}"
    environ = {**loaded, "PATH": own, "PYTHONPATH": ""}
    mpi = host_tools.find_mpi(options.mpi, environ)
    if mpi:
        tools = work / "bin"
        tools.mkdir()
        environ.update(mpi.variables(tools, own))
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
