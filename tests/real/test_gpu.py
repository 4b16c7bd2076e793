"""GPU jobs on nodes without a GPU: Slurm counts GPUs here that nobody has built in."""

from __future__ import annotations

import re

from .conftest import IMAGE, Done, Login, ended, succeeded

GPUS = ("-p", "gpu", "--gpus-per-node", "A100:2")
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
LOADS = "import ctypes; ctypes.CDLL('libcuda.so'); print('LOADED')"


def test_a_node_without_the_driver_is_explained(login: Login) -> None:
    """As with a node whose driver is broken."""
    trainer = login.write("gpu.py", "print('STARTED')")
    done = ended(login.launch(*GPUS, "--nv", "--follow", "--all", trainer), 89)
    assert re.search(r"runner: GPUs were requested, but n\d has no NVIDIA driver", done.stdout)
    assert "--no-nv to run on CPUs" in done.stdout
    assert "STARTED" not in done.stdout
    assert "Traceback" not in done.stdout


def test_gpus_for_an_image_without_cuda_are_refused(login: Login) -> None:
    trainer = login.write("gpu.py", "print('STARTED')")
    ended(login.launch("--gpus-per-node", "A100:2", trainer), 80, "horovod_cpu.sif cannot use them")


def with_library(login: Login, library: str) -> Done:
    """Run a trainer that opens the driver's library as Horovod does; `library` stands in for it."""
    trainer = login.write("gpu.py", LOADS)
    bind = f"{library}:{LIBRARIES}/libcuda.so.1"
    return login.launch("--scheduler", "local", "--nv", "--bind", bind, trainer)


def test_horovod_finds_the_drivers_library_under_its_own_name(login: Login) -> None:
    login.sh(f"apptainer exec {IMAGE} cp /lib/x86_64-linux-gnu/libm.so.6 library")
    done = succeeded(with_library(login, "library"))
    assert "| LOADED" in done.stdout


def test_a_library_of_a_newer_host_is_explained(login: Login) -> None:
    """The nodes are Debian 13, the image is Debian 12."""
    library = login.sh(f"realpath {LIBRARIES}/libsystemd.so.0").strip()
    done = ended(with_library(login, library), 89)
    assert "needs a newer C library than the image has" in done.stdout
    assert re.search(r"it needs GLIBC_2\.\d+, the image has glibc 2\.36", done.stdout)
