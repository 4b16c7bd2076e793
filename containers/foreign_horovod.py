"""Compiles our Horovod in an image or an environment that is not ours, for what is in there.

Its Python, frameworks, compiler and MPI are found by asking there. What compiling needs besides
comes from the lock of our own image and stays outside: only the wheel gets into it.
"""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runners.core.errors import Refused, SystemFault
from runners.core.machine import architecture

from . import apptainer, horovod_source, image_catalogue, lockfile
from .definition import STAGE, Base
from .lockfile import Pin, normalised

TOOLS = ("cmake", "setuptools", "wheel", "packaging")
# Names of packages: the module to import, and Horovod's name for the framework.
TENSORFLOWS = ("tensorflow", "tensorflow-cpu", "tensorflow-gpu")
FRAMEWORKS = {
    "torch": ("torch", "PYTORCH"),
    **dict.fromkeys(TENSORFLOWS, ("tensorflow", "TENSORFLOW")),
}
EVIDENCE = 8  # lines of what a compiler says
# What has to compile, what to say when it does not, and what has it on Debian and Ubuntu.
NEEDED = (
    ("compiler", "no C++ compiler that works", "g++"),
    ("make", "no program make", "make"),
    ("python", "no headers for its Python that compile", "python3-dev"),
    ("mpi", "an MPI that does not compile", "libopenmpi-dev"),
)
CUDA = {"HOROVOD_GPU_OPERATIONS": "NCCL", "HOROVOD_NCCL_LINK": "SHARED"}


@dataclass(frozen=True)
class Target:
    """An image or an environment: how a command in it is asked, and what its user can type.

    `with_tools` brings the compilers and libraries that are missing, `with_framework` torch;
    `with_horovod` is for one that has a Horovod.
    """

    name: str
    ask: Callable[..., subprocess.CompletedProcess[str]]
    with_horovod: str
    with_framework: str
    with_tools: str


@dataclass(frozen=True)
class HorovodBuild:
    """How Horovod is compiled for an image: its frameworks, and whether with MPI and for GPUs.

    `stage` is the path that the folder of the compilation has for the compiler.
    """

    modules: Mapping[str, str]  # name of the module: Horovod's name of the framework
    mpi: bool
    gpu: bool
    variables: Mapping[str, str]  # of the image: PATH and PYTHONPATH
    stage: str = STAGE

    def imports(self) -> str:
        return f"import {', '.join(f'horovod.{name}' for name in sorted(self.modules))}"

    def labels(self) -> dict[str, str]:
        """Return what `horovodrun --check-build` would say, as labels."""
        controllers = [*(["mpi"] if self.mpi else []), "gloo"]
        return {
            "horovod.version": _pin("horovod").version,
            "horovod.frameworks": ",".join(sorted(self.modules.values())).lower(),
            "horovod.controllers": ",".join(controllers),
            "horovod.operations": ",".join([*(["nccl"] if self.gpu else []), *controllers]),
        }

    def summary(self) -> str:
        """Return what it is compiled for, in words."""
        version, frameworks = _pin("horovod").version, " and ".join(sorted(self.modules))
        mpi = "MPI and Gloo" if self.mpi else "Gloo alone, as there is no mpicxx"
        gpu = "GPUs by NCCL" if self.gpu else "CPUs, as there is no nvcc with NCCL's headers"
        return f"Horovod {version} for {frameworks}; controllers: {mpi}; for {gpu}"

    def environ(self) -> dict[str, str]:
        theirs = self.variables["PYTHONPATH"]
        return {
            "PATH": f"{self.stage}/tools/bin:{self.variables['PATH']}",
            "PYTHONPATH": f"{self.stage}/tools{':' if theirs else ''}{theirs}",
            "PYTHONNOUSERSITE": "1",
            "PIP_USE_PEP517": "1",  # else an older pip lets setup.py fetch Horovod's requirements
            # An image may hold its packages in place with constraints, which tools need not keep.
            "PIP_CONSTRAINT": "/dev/null",
            **horovod_source.variables(self.modules.values(), self.mpi),
            **(CUDA if self.gpu else {}),
        }

    def compile(
        self,
        run: Callable[[Sequence[str], Path], None],
        inside: Sequence[str],
        pip: Sequence[str],
        folder: Path,
        log: Path,
        source: Sequence[str] = (),
    ) -> str:
        """Return the path that the wheel has for the compiler. Raises RunnerError.

        `inside` is the words before a command there, which sees `folder` as `stage`. `source`
        are pip's options that say where packages come from.
        """
        variables = [f"{name}={value}" for name, value in self.environ().items()]
        command = [*inside, "env", *variables, *pip]
        for name, pins in (("tools", map(_pin, TOOLS)), ("archive", [_pin("horovod")])):
            (folder / name).mkdir()
            (folder / f"{name}.txt").write_text(lockfile.lines(pins))
        alone = ["--no-deps", "--no-build-isolation"]
        fetch = [*source, "--require-hashes", "--requirement"]
        tools = ["install", "--target", f"{self.stage}/tools", "--only-binary=:all:"]
        run([*command, *tools, *alone, *fetch, f"{self.stage}/tools.txt"], log)
        archive = ["download", f"--dest={self.stage}/archive", "--no-binary=horovod"]
        run([*command, *archive, *alone, *fetch, f"{self.stage}/archive.txt"], log)
        horovod_source.unpack(folder / "archive", folder / "source")
        wheel = ["wheel", "--verbose", "--no-index", *alone]
        result = ["--wheel-dir", f"{self.stage}/compiled"]
        run([*command, *wheel, *result, f"{self.stage}/source"], log)
        (wheel_file,) = (folder / "compiled").glob("*.whl")
        return f"{self.stage}/compiled/{wheel_file.name}"


def _pin(name: str) -> Pin:
    lock = image_catalogue.HERE / image_catalogue.image("cpu", architecture()).lock
    (package,) = (p for p in [*lockfile.read(lock), *lockfile.build(lock)] if p.name == name)
    return package


def of_image(base: Base, python: str) -> Target:
    """Return an image as a target; its Python answers without the user's own packages."""
    path = shlex.quote(str(base.path))
    return Target(
        base.path.name,
        lambda *words: apptainer.ask(base.path, python, "-s", *words),
        f"runner verify {path}",
        "--requirements FILE, with torch in it, before",
        f"runner build --from {path} --def my.def, which installs it in its %post",
    )


def build_for(target: Target, packages: Mapping[str, str]) -> HorovodBuild:
    """Return how Horovod is compiled for a target, by asking there. Raises RunnerError."""
    installed = {normalised(name): version for name, version in packages.items()}
    if "horovod" in installed:
        what = f"{target.name} already has Horovod {installed['horovod']}"
        raise Refused(what, remedy=target.with_horovod, id="horovod-already-there")
    modules = dict(FRAMEWORKS[framework] for framework in FRAMEWORKS if framework in installed)
    if not modules:
        raise Refused(
            f"{target.name} has neither torch nor TensorFlow to compile Horovod for",
            f"they are not among the {len(installed)} packages of its Python",
            target.with_framework,
            id="horovod-without-framework",
        )
    return _checked(target, modules, _ask(target))


def _ask(target: Target) -> dict[str, Any]:
    program = (image_catalogue.HERE / "probe_compilers.py").read_text(encoding="utf-8")
    done = target.ask("-c", program)
    if done.returncode:
        raise SystemFault(
            f"nothing can be tried in {target.name}", done.stderr, id="target-does-not-run"
        )
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _checked(target: Target, modules: Mapping[str, str], can: Mapping[str, Any]) -> HorovodBuild:
    """Return the build; Refused for what does not compile. No MPI or CUDA is no fault."""
    for name, lack, package in NEEDED:
        output = can[name]
        if output == "" or (name == "mpi" and output is None):
            continue
        evidence = "its program is not on the PATH there" if output is None else output
        raise Refused(
            f"{target.name} has {lack}, so Horovod cannot be compiled in it",
            "\n".join(evidence.splitlines()[:EVIDENCE]),
            f"{target.with_tools} (Debian: {package})",
            id="horovod-not-compilable",
        )
    gpu = (can["nvcc"], can["nccl"]) == ("", "")
    return HorovodBuild(modules, can["mpi"] == "", gpu, can["variables"])
