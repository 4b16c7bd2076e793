"""Compiles Horovod on a host, against the packages of a lock and the host's own MPI.

The edits, the archive and the packages are those of the image; in a container compile.sh does it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from runners.core import atomic, digest

from . import horovod_source, host_tools, image_catalogue, lockfile, process
from .host_tools import Mpi

OURS = ("horovod/**/*.*", "horovod_source.py", "host_horovod.py", "host_tools.py")


@dataclass(frozen=True)
class Compilation:
    """For which Python, from which wheels, with which MPI and variables it is compiled."""

    image: image_catalogue.Image
    python: Path
    wheels: Path
    mpi: Mpi | None
    environ: Mapping[str, str]
    library: str = ""  # of the MPI

    def key(self) -> str:
        """Name the result by all that decides it."""
        lock = image_catalogue.HERE / self.image.lock
        pins = [pin.line() for pin in [*lockfile.against(lock), *lockfile.build(lock)]]
        compiler = self.mpi.compiler.resolve() if self.mpi else None
        library = digest.sha256(Path(self.library)) if self.library else "none"
        mpi = f"{compiler} {self.library} {library}"
        modules = self.environ.get("LOADEDMODULES", "")
        files = [path for name in OURS for path in sorted(image_catalogue.HERE.glob(name))]
        return digest.key(
            pins="\n".join(pins),
            mpi=mpi,
            modules=modules,
            python=str(self.python.resolve()),
            files=digest.of_files(files, image_catalogue.HERE),
        )


def compiled(compilation: Compilation, builds: Path, temporary: Path, log: Path) -> Path:
    """Return the folder with the wheel, compiled if it is not there. Raises SystemFault."""
    result = builds / f"horovod-host-{compilation.key()}"
    if not result.exists():
        builds.mkdir(parents=True, exist_ok=True)
        with process.emptied(temporary) as work, atomic.new_folder(result) as part:
            _compile(compilation, work, part, log)
    return result


def _compile(compilation: Compilation, work: Path, result: Path, log: Path) -> None:
    venv, source, tools = work / "venv", work / "source", work / "bin"
    tools.mkdir()
    process.run(
        [str(compilation.python), "-m", "venv", "--without-pip", str(venv)], log, os.environ
    )
    lock = image_catalogue.HERE / compilation.image.lock
    pins = [*lockfile.against(lock), *(p for p in lockfile.build(lock) if p.name != "horovod")]
    wanted = work / "requirements.txt"
    wanted.write_text(lockfile.lines(pins))
    install(
        venv,
        compilation.wheels,
        ["--require-hashes", "--no-compile", f"--requirement={wanted}"],
        log,
    )
    horovod_source.unpack(compilation.wheels, source)
    env = variables(compilation, venv, tools)
    argv = [*pip(venv), "wheel", "--verbose", "--no-index", "--no-build-isolation", "--no-deps"]
    process.run([*argv, f"--wheel-dir={result}", str(source)], log, env)


def variables(compilation: Compilation, venv: Path, tools: Path) -> dict[str, str]:
    """Return the environment in which Horovod compiles; `tools` is an empty folder for its PATH."""
    path = f"{venv / 'bin'}{os.pathsep}{compilation.environ.get('PATH', os.defpath)}"
    environ = {**compilation.environ, "PATH": path}
    environ.update(compilation.mpi.variables(tools, path) if compilation.mpi else {})
    names = {pin.name for pin in lockfile.against(image_catalogue.HERE / compilation.image.lock)}
    tensorflow = ["TENSORFLOW"] if any(name.startswith("tensorflow") for name in names) else []
    environ.update(
        horovod_source.variables(("PYTORCH", *tensorflow), mpi=compilation.mpi is not None)
    )
    if "nvidia-nccl-cu12" in names:
        environ.update(_with_nccl(venv, "cuda_runtime"))
        environ["HOROVOD_BUILD_CUDA_CC_LIST"] = "70,75,80,86,89,90"
    elif "nvidia-nccl-cu13" in names:
        environ.update({**_with_nccl(venv, "cu13"), **_cuda13(venv)})
    return environ


def _nvidia(venv: Path) -> Path:
    """Return where NVIDIA's wheels lie."""
    (site,) = venv.glob("lib/python3.*/site-packages")
    return site / "nvidia"


def _with_nccl(venv: Path, runtime: str) -> dict[str, str]:
    """Return what horovod_wheel_gpu.def sets: NCCL is that of its wheel."""
    nccl = _nvidia(venv) / "nccl"
    _link(nccl / "lib" / "libnccl.so", "libnccl.so.2")
    folders = (f"$ORIGIN/../../nvidia/{name}/lib" for name in ("nccl", runtime))
    return {
        "HOROVOD_GPU_OPERATIONS": "NCCL",
        "HOROVOD_NCCL_HOME": str(nccl),
        "HOROVOD_NCCL_LINK": "SHARED",
        "LDFLAGS": f"-Wl,-rpath,'{':'.join(folders)}'",
    }


def _cuda13(venv: Path) -> dict[str, str]:
    """Return what horovod_wheel_gpu.def sets for CUDA 13, whose compiler is in wheels too."""
    cuda = _nvidia(venv) / "cu13"
    _link(cuda / "lib64", "lib")
    _link(cuda / "lib" / "libcudart.so", "libcudart.so.13")
    return {
        "HOROVOD_BUILD_CUDA_CC_LIST": "75,80,90,100",
        "NVCC_APPEND_FLAGS": "-gencode=arch=compute_120,code=sm_120",
        "CUDA_HOME": str(cuda),
        "HOROVOD_CUDA_HOME": str(cuda),
    }


def _link(path: Path, target: str) -> None:
    if not path.exists():
        path.symlink_to(target)


def pip(environment: Path, isolated: bool = True) -> list[str]:
    """Return pip of the Python that runs this, for an environment that may have none.

    Unless it is `isolated`, this machine's configuration says where packages come from.
    """
    program = [sys.executable, "-m", "pip", *(["--isolated"] if isolated else [])]
    return [*program, "--disable-pip-version-check", f"--python={environment}/bin/python"]


def install(environment: Path, wheels: Path, requirements: Sequence[str], log: Path) -> None:
    """Install from a folder of wheels, and nothing else. Raises SystemFault."""
    where = ["--no-index", f"--find-links={wheels}", "--no-deps"]
    process.run([*pip(environment), "install", "--quiet", *where, *requirements], log, os.environ)


def linked(environment: Path, environ: Mapping[str, str]) -> str:
    """Return the MPI library that Horovod loads in an environment, "" for none."""
    extensions = sorted(environment.glob("lib/python3.*/site-packages/horovod/*/mpi_lib*.so"))
    return host_tools.linked_mpi(extensions[0], environ) if extensions else ""
