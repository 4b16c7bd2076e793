"""`runner build env`: what of the host it finds and refuses, and what the environment then says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from containers import (
    build_plan,
    horovod_source,
    host_environment,
    host_horovod,
    host_tools,
    image_catalogue,
)
from containers.build_plan import BuildOptions
from containers.host_environment import EnvironmentOptions
from containers.host_horovod import Compilation
from containers.host_tools import Mpi
from runners.cli import cli
from runners.core import machine
from runners.core.errors import RunnerError
from runners.core.model import ImageInfo, JobSpec, Resources, RuntimeName, SchedulerName
from runners.core.site import Site
from runners.core.trainer import Trainer
from runners.images import inspect
from runners.images.facts import environment_facts
from runners.images.inspect import ImageFact

from .. import sentences
from ..plans import planned
from ..programs import program

SPEC = JobSpec(
    "job",
    ImageInfo(Path("/i/env")),
    Trainer("t", None, Path("/s/t.py")),
    Resources(nodes=2),
    Path("/s/runs"),
)
SITE = Site((SchedulerName.SLURM,), ("none", "pmix"), cwd="/s")
LABELS = {"horovod.version": "0.28.1", "horovod.controllers": "mpi,gloo", "pmi.client": "pmix"}


@dataclass(frozen=True)
class Done:
    """How a command ended: by an error of ours, or by one of click's with its words."""

    exit_code: int
    output: str
    error: RunnerError | None = None


def build(*words: str) -> Done:
    done = CliRunner().invoke(cli, ["build", *words])
    if isinstance(done.exception, RunnerError):
        return Done(done.exception.exit_code, done.output, done.exception)
    return Done(done.exit_code, done.output)


def test_a_folder_that_has_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("")
    done = build("env", str(tmp_path))
    assert done.exit_code == 2
    assert done.error is not None
    id, remedy = sentences.told(done.error)
    assert id == "environment-not-new"
    assert remedy.endswith(f"runner build horovod --into {tmp_path}")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Missing argument 'DIR'"),
        (("a", "b"), "'b' is not one of 'cpu', 'gpu', 'gpu13'"),
        (("a", "cpu", "c"), "unexpected extra argument (c)"),
        (("a", "--mpi", "/no/such"), "mpi-compiler-missing"),
    ],
)
def test_words_that_say_nothing(
    here: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str
) -> None:
    monkeypatch.setattr(host_tools, "check_python", lambda *_: None)
    monkeypatch.setattr(host_tools, "check_compiler", lambda *_: None)
    monkeypatch.setattr(host_tools, "find_python", lambda *_: Path(sys.executable))
    done = build("env", *words)
    assert done.exit_code == 2, done.output
    assert said in (sentences.told(done.error)[0] if done.error else done.output)
    assert not list(here.iterdir())


@pytest.mark.parametrize("name", ["libmpi.so.40", "libmpich.so.12", "libmpi_gnu_123.so.12"])
def test_the_mpi_library_is_that_of_c(tmp_path: Path, name: str) -> None:
    (tmp_path / "real.so").write_text("")
    (tmp_path / name).symlink_to("real.so")
    said = f"libmpi_cxx.so.40 => /l/libmpi_cxx.so.40 (0x1)\n{name} => {tmp_path}/{name} (0x2)"
    program(tmp_path / "ldd", f"cat << E\n{said}\nE")
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    assert host_tools.linked_mpi(Path("x.so"), environ) == str(tmp_path / "real.so")


def test_another_mpi_than_the_compilers_is_told(tmp_path: Path) -> None:
    mpich = Mpi(tmp_path / "mpicxx")
    host_tools.check_linked(mpich, "/l/libmpich.so.12", "/l/libmpich.so.12")
    for library in ("/l/libmpi.so.40.30.4", ""):
        with sentences.raises("mpi-not-the-compilers"):
            host_tools.check_linked(mpich, "/l/libmpich.so.12", library)


def test_an_mpi_that_does_not_compile_is_refused_before_anything_else(tmp_path: Path) -> None:
    broken = Mpi(program(tmp_path / "mpicxx", "echo no mpi.h >&2; exit 1"))
    with sentences.raises("mpi-does-not-compile"):
        host_tools.library(broken, os.environ, tmp_path)


def test_the_library_of_an_mpi_is_that_of_what_it_compiles(tmp_path: Path) -> None:
    (tmp_path / "libmpi.so.40").write_text("")
    program(
        tmp_path / "ldd", f'test -x "$1" && echo "libmpi.so.40 => {tmp_path}/libmpi.so.40 (0x1)"'
    )
    mpi = Mpi(program(tmp_path / "mpicxx", 'grep -q MPI_Init "$1" && cp "$0" "$3"'))
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    assert host_tools.library(mpi, environ, tmp_path) == f"{tmp_path}/libmpi.so.40"


def test_without_a_compiler(tmp_path: Path) -> None:
    with sentences.raises("compiler-missing"):
        host_tools.check_compiler({"PATH": str(tmp_path)})


def test_without_the_python_of_the_lock(tmp_path: Path) -> None:
    with sentences.raises("python-missing"):
        host_tools.find_python("3.99", {"PATH": str(tmp_path)})


def test_the_mpi_is_a_folders_a_compilers_crays_or_the_paths(tmp_path: Path) -> None:
    first = program(tmp_path / "openmpi" / "bin" / "mpicxx", "")
    mpich = program(tmp_path / "mpicxx.mpich", "")
    cray = program(tmp_path / "cray" / "CC", "")
    path = {"PATH": f"{cray.parent}:{first.parent}"}
    assert host_tools.find_mpi("", path) == Mpi(first)
    assert host_tools.find_mpi(str(first.parents[1]), {}) == Mpi(first)
    assert host_tools.find_mpi(str(mpich), path) == Mpi(mpich)
    assert host_tools.find_mpi("", {**path, "CRAYPE_VERSION": "2.7"}) == Mpi(cray, cray=True)
    assert host_tools.find_mpi("", {"PATH": str(tmp_path)}) is None


def compilation(mpi: Mpi | None, image: str = "cpu") -> Compilation:
    asked = image_catalogue.image(image)
    return Compilation(asked, Path("/p"), Path("/w"), mpi, {"PATH": "/usr/bin", "CC": "gcc"})


def test_how_horovod_is_compiled(tmp_path: Path) -> None:
    wrapper, tools = program(tmp_path / "mpicxx.mpich", ""), tmp_path / "tools"
    tools.mkdir()
    found = host_horovod.variables(compilation(Mpi(wrapper)), tmp_path / "venv", tools)
    assert found["PATH"].split(":") == [str(tools), f"{tmp_path}/venv/bin", "/usr/bin"]
    assert (tools / "mpicxx").resolve() == wrapper
    assert os.readlink(tools / "mpiexec") == f"{tmp_path}/mpiexec.mpich"
    assert found["HOROVOD_WITH_MPI"] == "1"
    assert "HOROVOD_GPU_OPERATIONS" not in found
    found = host_horovod.variables(compilation(None), tmp_path / "venv", tools)
    assert (found["HOROVOD_WITHOUT_MPI"], found.get("HOROVOD_WITH_MPI")) == ("1", None)
    found = host_horovod.variables(compilation(Mpi(Path("/cray/CC"), cray=True)), tmp_path, tools)
    assert (found["CC"], found["CXX"]) == ("cc", "/cray/CC")


@pytest.mark.parametrize(
    ("cores", "gb", "flag"),
    [(8, 4, "-j1"), (8, 6, "-j2"), (2, 24, "-j2"), (1, 4, "-j1"), (8, 2, "-j1")],
)
def test_compilers_run_at_once_as_far_as_memory_allows(
    monkeypatch: pytest.MonkeyPatch, cores: int, gb: int, flag: str
) -> None:
    """As in the image, where each of the large sources takes 2.4 GB too."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: range(cores))
    monkeypatch.setattr(machine, "available_memory", lambda: gb * 10**9)
    assert horovod_source.variables(["PYTORCH"], mpi=True)["MAKEFLAGS"] == flag
    in_image = (image_catalogue.HERE / "horovod" / "compile.sh").read_text()
    assert f"int($2 / {horovod_source.BYTES_EACH // 1000})" in in_image


def test_how_horovod_is_compiled_for_gpus(tmp_path: Path) -> None:
    nccl = tmp_path / "lib" / "python3.13" / "site-packages" / "nvidia" / "nccl" / "lib"
    nccl.mkdir(parents=True)
    found = host_horovod.variables(compilation(None, "gpu"), tmp_path, tmp_path)
    assert found["HOROVOD_GPU_OPERATIONS"] == "NCCL"
    assert found["HOROVOD_NCCL_HOME"] == str(nccl.parent)
    assert os.readlink(nccl / "libnccl.so") == "libnccl.so.2"
    assert found["HOROVOD_WITH_TENSORFLOW"] == "1"
    assert "CUDA_HOME" not in found


def test_cudas_compiler_is_that_of_the_wheels_for_cuda_13(tmp_path: Path) -> None:
    nvidia = tmp_path / "lib" / "python3.13" / "site-packages" / "nvidia"
    for name in ("nccl", "cu13"):
        (nvidia / name / "lib").mkdir(parents=True)
    found = host_horovod.variables(compilation(None, "gpu13"), tmp_path, tmp_path)
    assert found["HOROVOD_CUDA_HOME"] == found["CUDA_HOME"] == str(nvidia / "cu13")
    assert os.readlink(nvidia / "cu13" / "lib" / "libcudart.so") == "libcudart.so.13"
    assert (found["HOROVOD_WITH_PYTORCH"], found["HOROVOD_WITHOUT_TENSORFLOW"]) == ("1", "1")
    # The same as in the image.
    definition = (image_catalogue.HERE / "horovod_wheel_gpu.def").read_text()
    for name in ("HOROVOD_BUILD_CUDA_CC_LIST", "NVCC_APPEND_FLAGS"):
        assert re.search(f'{name}="?{re.escape(found[name])}\\b', definition)


@pytest.mark.parametrize(
    ("image", "frameworks"), [("cpu", ["torch", "tensorflow"]), ("gpu13", ["torch"])]
)
def test_horovod_is_imported_with_the_frameworks_of_the_lock(
    image: str, frameworks: list[str]
) -> None:
    modules = ", ".join(f"horovod.{name}" for name in frameworks)
    made = build_plan.make(image, BuildOptions(base="debian:12"))
    assert host_environment._imports(made) == f"import {modules}"


def test_another_mpi_or_module_is_another_result(tmp_path: Path) -> None:
    first, second = (Mpi(program(tmp_path / name, f"echo {name}")) for name in ("a", "b"))
    made = compilation(first)
    loaded = replace(made, environ={"LOADEDMODULES": "openmpi/4.1"})
    assert len({compilation(first).key(), compilation(second).key(), loaded.key()}) == 3
    library = tmp_path / "libmpi.so.40"
    library.write_text("4.1.4")
    before = replace(made, library=str(library)).key()
    library.write_text("4.1.6")  # by an update, in place
    assert before != replace(made, library=str(library)).key()


def test_a_failure_removes_what_was_made_and_nothing_else(tmp_path: Path) -> None:
    full, empty, new = (tmp_path / name for name in ("full", "empty", "new"))
    full.mkdir()
    (full / "mine").write_text("")
    empty.mkdir()
    for folder in (full, empty, new):
        with suppress(KeyboardInterrupt), host_environment.kept(EnvironmentOptions(folder)):
            folder.mkdir(exist_ok=True)
            (folder / "bin").mkdir()
            raise KeyboardInterrupt
    assert (full / "mine").exists()
    assert (list(empty.iterdir()), new.exists()) == ([], False)


# As Lmod's hierarchies: the compiler's module brings the path on which its MPI is found.
MODULE = """\
module() { case "$1 $2" in 'load openmpi; x') export MPI='a
b';; 'load gcc/13') GCC=13;; 'load openmpi/4.1') test "$GCC";;
*) false;; esac || { echo "no $2" >&2; return 1; }; }
"""


@pytest.fixture
def modules(tmp_path: Path) -> dict[str, str]:
    """An environment whose login shell has the command `module`."""
    (tmp_path / ".bash_profile").write_text(MODULE)
    return {**os.environ, "HOME": str(tmp_path)}


def test_modules_are_loaded_as_in_a_job(modules: dict[str, str]) -> None:
    assert host_tools.with_modules(["openmpi; x"], modules)["MPI"] == "a\nb"
    assert "MPI" in host_tools.with_modules(["gone|openmpi; x"], modules)
    with sentences.raises("module-not-loadable") as caught:
        host_tools.with_modules(["gone"], modules)
    assert caught.value.evidence == "no gone"


def labelled(folder: Path, modules: str, library: Path) -> ImageInfo:
    environment_facts.write_labels(folder, LABELS, modules.split(), str(library))
    labels = environment_facts.read_labels(folder)
    return ImageInfo(folder, labels, inspected=environment_facts.facts_now(labels))


def test_what_an_environment_says_and_what_has_become_of_it(tmp_path: Path) -> None:
    library = tmp_path / "libmpi.so.40"
    library.write_text("one")

    def refused(change: str) -> str:
        info = labelled(tmp_path, "", library)
        subprocess.run(["sh", "-c", change], cwd=tmp_path, check=True)
        info = replace(
            info, path=SPEC.image.path, inspected=environment_facts.facts_now(info.labels)
        )
        made = planned(SPEC, SITE, runtime=RuntimeName.NONE, image=info)
        return " ".join(f"{refusal.what}: {refusal.evidence}" for refusal in made.refusals)

    assert refused("true") == ""
    assert "the MPI changed after the Horovod in" in refused("echo two > libmpi.so.40")
    assert f"is gone: {library} is not there" in refused("rm libmpi.so.40")


def test_doctor_and_inspect_see_its_label_without_running_it(tmp_path: Path) -> None:
    program(tmp_path / "bin" / "python", "exit 1")
    environment_facts.write_labels(tmp_path, LABELS, (), "")
    found = inspect.inspect(tmp_path)
    assert found.problem is None
    assert found.facts["horovod.controllers"] == ImageFact("mpi,gloo", "label")
    assert found.facts["format"] == ImageFact("folder", "file")


def test_its_modules_are_loaded_unless_the_user_names_others(
    tmp_path: Path, modules: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", modules["HOME"])
    info = ImageInfo(tmp_path, {**LABELS, "modules": "gcc/12 openmpi/4.1"})

    def loaded(*asked: str) -> tuple[str, ...]:
        spec = replace(SPEC, runtime=RuntimeName.NONE, modules=asked)
        return planned(spec, SITE, image=info).modules.names

    assert loaded() == ("gcc/12", "openmpi/4.1")
    assert loaded("openmpi/5") == ("gcc/12", "openmpi/5")
    assert environment_facts.facts_now({"modules": "gcc/13 openmpi/4.1"}) == {}
    gone = environment_facts.facts_now({"modules": "gcc/12 openmpi/4.1"})
    assert gone == {"modules.gone": "gcc/12 openmpi/4.1"}
    made = planned(SPEC, SITE, runtime=RuntimeName.NONE, image=replace(info, inspected=gone))
    assert made.refusals[0].what.endswith("compiled with modules that are no longer available")
    assert "runner build env" in str(made.refusals[0].remedies[0])
