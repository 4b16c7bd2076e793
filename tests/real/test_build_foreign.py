"""Horovod onto an image that is not ours: Debian 12 with compilers, Open MPI and torch.

Also in a small form, in which `make` compiles two files and has the rest from `make build-cpu`.
"""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

import pytest

from containers import debian, image_catalogue
from containers.build_plan import BuildPlan
from runners.core.digest import key
from tests import documents
from tests.bench import plain
from tests.cluster.state import UID, State, locked

from .conftest import Done, Login, ended, succeeded
from .test_allocation_and_host_mpi import HELLO, TWO, ranks
from .yard import Yard, yard

__all__ = ["yard"]

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the test cluster needs root")
SECONDS = 1500  # of which compiling for torch alone takes 180 on two quiet cores
BASE = """Bootstrap: localimage
From: base
%post
  python3 -m venv /opt/theirs
  /opt/theirs/bin/pip install --quiet --no-index --find-links /mnt torch numpy
%environment
  export PATH="/opt/theirs/bin:$PATH"
"""
MAKE = """
mkdir base
{unpack}
apptainer build --fakeroot --bind "$PWD/wheels:/mnt:ro" \\
    --mksquashfs-args '-comp zstd -Xcompression-level 1' theirs.sif base.def
unshare --user --map-root-user --map-auto rm -r base
rm base.tar
"""
# One of the files that know torch, one that does not, and the library linked by `make build-cpu`.
FEW_FILES = r"""#!/bin/sh -e
parts=horovod/torch/CMakeFiles/pytorch.dir
[ -f $parts/link.txt ] || exec /usr/bin/make "$@"
# Alone, where the build compiles all of them as one source.
for file in torch/adapter_v2.cc common/half.cc; do
    flags='$(CXX_DEFINES) $(CXX_INCLUDES) $(CXX_FLAGS)'
    printf 'include %s/flags.make\nall: ; $(CXX) %s -c %s -o /dev/null' \
        $parts "$flags" ../../../horovod/$file | /usr/bin/make -f - all
done
cd horovod/torch
cp /media/few/horovod/torch/mpi_lib_v2*.so \
    "$(sed -n 's/.* -o \([^ ]*\) .*/\1/p' CMakeFiles/pytorch.dir/link.txt)"
"""
# CMake looks for gmake first; in the image /media is the folder of the command.
FEW = {"APPTAINERENV_PREPEND_PATH": "/media/few", "RUNNER_PACK_LEVEL": "1"}


@pytest.fixture(scope="module")
def theirs(yard: Yard) -> Login:
    """theirs.sif and the wheels; the image is kept, as packing takes most of a minute."""
    plan = plain.image_plan()
    folder = State.locate().scratch / yard.folder.partition("/scratch/")[2]
    shutil.copytree(plan.wheels, folder / "wheels", copy_function=os.link)
    os.chown(folder / "wheels", UID, UID)  # who removes it
    inputs = key(text=BASE + MAKE, wheels=plan.wheels.name)
    kept = State.locate().cache / "theirs" / f"{inputs}.sif"
    with locked(kept.parent):
        if not kept.exists():
            make(yard, folder, plan)
            os.link(folder / "theirs.sif", kept)
    if not (folder / "theirs.sif").exists():
        os.link(kept, folder / "theirs.sif")
    return yard


def make(yard: Yard, folder: Path, plan: BuildPlan) -> None:
    """From the base that our own Horovod is compiled in, and the wheels beside."""
    os.link(
        plan.base_archive(image_catalogue.HERE / plan.image.wheel_definition), folder / "base.tar"
    )
    yard.write("base.def", BASE)
    unpack = shlex.join(debian.unpack_command(Path("base.tar"), Path("base")))
    succeeded(yard.run("bash", "-ec", MAKE.format(unpack=unpack), timeout=SECONDS))


def build(theirs: Login, output: str, **env: str) -> Done:
    """Type the guide's command for this image."""
    command = documents.command(r"runner build --from \S+ --horovod")
    command = command.replace("nvidia.sif", "theirs.sif").replace("mine.sif", output)
    scratch = {"RUNNER_SCRATCH": f"{theirs.folder}/scratch", **env}
    words = ["bash", "-c", f"{command} --wheelhouse wheels"]
    return theirs.run(*words, env=scratch, timeout=SECONDS)


def test_few_files_are_compiled_and_its_test_passes(theirs: Login) -> None:
    (wheel,) = plain.image_plan().horovod.glob("*.whl")
    theirs.sh("mkdir few")
    shutil.unpack_archive(wheel, State.locate().root / theirs.folder[1:] / "few", "zip")
    theirs.sh(f"chmod 755 {theirs.write('few/gmake', FEW_FILES)}")
    done = succeeded(build(theirs, "few.sif", **FEW))
    assert "Horovod 0.28.1 for torch; controllers: MPI and Gloo; for CPUs" in done.stderr
    log = theirs.sh("cat scratch/horovod-runner/logs/few.log")
    assert "-c ../../../horovod/torch/adapter_v2.cc" in log
    assert "horovod.controllers: mpi,gloo" in theirs.sh("apptainer inspect few.sif")


@pytest.mark.slow
def test_it_is_compiled_for_what_is_there_and_runs_on_two_nodes(theirs: Login) -> None:
    done = succeeded(build(theirs, "mine.sif"))
    assert "Horovod 0.28.1 for torch; controllers: MPI and Gloo; for CPUs" in done.stderr
    labels = theirs.sh("apptainer inspect mine.sif")
    for label in ("horovod.frameworks: pytorch", "horovod.controllers: mpi,gloo"):
        assert label in labels
    assert "mpi.version: 4.1.4" in labels
    assert "org.opencontainers.image.base.name: theirs.sif" in labels
    # Nothing of what it was compiled with.
    assert theirs.sh("apptainer exec mine.sif sh -c 'ls /opt/theirs/bin'").count("cmake") == 0
    hello = theirs.write("hello.py", HELLO)
    for controller in ("mpi", "gloo"):
        launch = ["launch", "--image", "mine.sif", *TWO, "--all", "--controller", controller]
        done = succeeded(theirs.runner(*launch, "--follow", hello))
        expected = [(f"n{rank + 1}", str(rank), "2", "3.0", "/opt/theirs") for rank in range(2)]
        assert ranks(done.stdout) == expected
    again = theirs.runner("build", "--from", "mine.sif", "--horovod")
    ended(again, 80, "mine.sif already has Horovod 0.28.1")
