"""Checks before the trainer whether the node's CPU and its NVIDIA driver fit the image.

On a CPU without the instructions for which Horovod is compiled, the first sum of gradients ends the
rank by SIGILL, with no word of why. `--nv` binds what it finds of the driver, and says nothing if
that is nothing; the trainer then ends with a stack trace, or trains on the CPU.
"""

from __future__ import annotations

import os
import re
import sys

from ...contract import failure_kinds as kinds
from ...contract.failure_kinds import FailureKind
from ...contract.nvidia import DRIVER, driver_version
from ...contract.run_files import read
from ...contract.versions import older
from ..problems import Problem

CPUINFO = "/proc/cpuinfo"
# x86-64 psABI, table 3.1, in the kernel's words: LZCNT is `abm`, OSXSAVE comes with `xsave`.
LEVELS = {
    "x86-64-v3": ("abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"),
}
OUR_OLDEST = "525.60.13"  # the driver that our image with CUDA 12 needs
LIBRARY = "libcuda.so.1"  # what the driver's library calls itself, and `--nv` always gives
OPENED = "libcuda.so"  # what Horovod opens (0.28.1, horovod/torch/cuda_util.cc)
GLIBC = re.compile(r"version [`'](GLIBC_[\d.]+)' not found")


def cpu_problem(level: str, host: str) -> Problem | None:
    """Return why this node cannot run the image's Horovod, which is compiled for `level`."""
    flags = re.search("^flags.*", read(CPUINFO), re.MULTILINE)  # none where the kernel says none
    lacks = [name for name in LEVELS.get(level, ()) if flags and name not in flags.group().split()]
    if not lacks:
        return None
    evidence = [
        f"it is compiled for {level}; the CPU has no {', '.join(lacks)} ({CPUINFO})",
        "try: nodes with a newer CPU (--constraint, --partition)",
    ]
    text = f"the CPU of {host} is too old for the Horovod in the image"
    return Problem(FailureKind.CPU, text, {"evidence": evidence})


def driver_problem(
    minimum: str | None, host: str, driver_file: str = DRIVER, requested: bool = True
) -> Problem | None:
    """Return why this node cannot run the image's GPU code; None when it can.

    `minimum` is the oldest driver for the image's CUDA, None when the image does not say. GPUs were
    `requested`, or --nv alone was given.
    """
    driver = driver_version(driver_file)
    if why_not := loading_error(LIBRARY):
        return _no_library(why_not, driver, host, requested)
    if minimum and driver and older(driver, minimum):
        return _explained(
            "old",
            f"the NVIDIA driver of {host} is too old for the CUDA in the image",
            f"it is {driver}; the image needs {minimum} or newer",
            "nodes with a newer driver (--constraint, --partition), or an image with an older CUDA"
            + (" (runner build gpu)" if older(OUR_OLDEST, minimum) else ""),
        )
    return None


def _no_library(why_not: str, driver: str, host: str, requested: bool) -> Problem:
    if glibc := GLIBC.search(why_not):
        own = os.confstr("CS_GNU_LIBC_VERSION") or "unknown"
        return _explained(
            "glibc",
            f"the NVIDIA driver's library of {host} needs a newer C library than the image has",
            f"it needs {glibc.group(1)}, the image has glibc {own.rpartition(' ')[2]}",
            "an image on a newer base system",
        )
    if driver:
        return _explained(
            "no-library",
            f"{LIBRARY} is not in the container, though {host} has NVIDIA driver {driver}",
            why_not,
            "ldconfig -p | grep libcuda on that node, since --nv takes what is listed there",
        )
    return _explained(
        kinds.NO_DRIVER,
        f"{'GPUs were requested' if requested else '--nv was given'}, but {host} has no NVIDIA "
        "driver",
        f"no {DRIVER}; {why_not}",
        "--partition NAME or --gpus-per-node N for nodes with GPUs, or --no-nv to run on CPUs",
    )


def _explained(reason: str, text: str, evidence: str, remedy: str) -> Problem:
    return Problem(
        FailureKind.DRIVER, text, {"reason": reason, "evidence": [evidence, f"try: {remedy}"]}
    )


def loading_error(library: str) -> str:
    """Load a library; return the loader's complaint, empty when there is none.

    It is empty, too, where Python has no ctypes to try with, as in some small images.
    """
    try:
        import ctypes  # here, because some small images lack it

        ctypes.CDLL(library)
    except ImportError:
        return ""
    except OSError as error:
        return str(error)
    return ""


def give_horovod_its_name(run_dir: str) -> None:
    """Make a link by which OPENED can be loaded where LIBRARY can, and start this process again.

    The loader reads LD_LIBRARY_PATH only when a program starts. Our own image has the link.
    """
    folder = os.path.join(run_dir, "code", "libs", os.uname().nodename)
    done = folder in os.environ.get("LD_LIBRARY_PATH", "").split(":")
    if done or loading_error(LIBRARY) or not loading_error(OPENED):
        return
    os.makedirs(folder, exist_ok=True)
    link = os.path.join(folder, OPENED)
    part = f"{link}.{os.getpid()}"  # in one step: every task of the node does it at once
    os.symlink(path_of(OPENED), part)
    os.replace(part, link)
    before = os.environ.get("LD_LIBRARY_PATH")
    os.environ["LD_LIBRARY_PATH"] = f"{before}:{folder}" if before else folder
    os.execv(sys.executable, [sys.executable, *sys.argv])


def path_of(library: str) -> str:
    """Return the file of a library that this process has loaded; the version may be left out."""
    for line in read("/proc/self/maps").splitlines():
        path = line.partition("/")[2]
        if os.path.basename(path).startswith(library):
            return "/" + path
    raise FileNotFoundError(library)
