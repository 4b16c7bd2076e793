"""Prints as JSON what an image's own Python knows. Runs inside any image, be it ours or not.

Its text goes to `python -c`: standard library only, Python 3.8 or newer, nothing is imported that
is not asked for by name, since a framework takes seconds.
"""

from __future__ import annotations

import glob
import importlib.util
import json
import os
import platform
import re
from importlib.metadata import PackageNotFoundError, version
from typing import Any

try:
    import ctypes
except ImportError:  # a small Python may lack libffi
    ctypes = None  # type: ignore[assignment]


def package(*names: str) -> str | None:
    """Version of the first of these packages that is installed, or None."""
    for name in names:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return None


def beside(module: str, name: str) -> str | None:
    """Path of a file in a module's folder, without importing it; None without the module."""
    spec = importlib.util.find_spec(module)
    folders = (spec and spec.submodule_search_locations) or []
    return next((os.path.join(folder, name) for folder in folders), None)


def read(path: str | None) -> str:
    """Text of a file, "" when there is none."""
    try:
        with open(path or "", encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def library(name: str) -> Any:
    """A shared library; None when it, or ctypes itself, cannot be loaded."""
    try:
        return ctypes.CDLL(name) if ctypes else None
    except OSError:
        return None


# What Horovod's extensions are linked with, and what else may be there. Open MPI 4 and 5 and
# the common MPICH ABI (MPICH, Intel, Cray) have these names; Debian's MPICH has its own.
MPI_NAMES = ("libmpi.so.40", "libmpi.so.12", "libmpich.so.12", "libmpi.so")
# MPI_Get_library_version of each, as they write it: pattern with the version, flavour.
MPI_SAYS = (
    (r"Open MPI v([\d.]+\w*)", "openmpi"),
    (r"CRAY MPICH version ([\d.]+)", "mpich"),
    (r"MPICH Version:\s+([\d.]+\w*)", "mpich"),
    (r"Intel\(R\) MPI Library ([\d.]+)", "intelmpi"),
)
# A process manager's library that MPI is linked with, in the order in which it would be used.
CLIENTS = (("libpmix.so", "pmix"), ("libpmi2.so", "pmi2"), ("libpmi.so", "pmi1"))


def linked_mpi() -> list[str]:
    """Names of the MPI libraries that Horovod's extensions ask for."""
    names = set()
    for path in glob.glob(os.path.join(beside("horovod", "") or "/nowhere", "*", "mpi_lib*.so")):
        with open(path, "rb") as file:
            names.update(re.findall(rb"\0(lib(?:mpi|mpich)\.so\.\d+)\0", file.read()))
    return [name.decode() for name in sorted(names)]


def mpi() -> dict[str, str | None]:
    """Flavour, version and device of the MPI, by its own words, and what it speaks."""
    loaded = next(filter(None, map(library, [*linked_mpi(), *MPI_NAMES])), None)
    if loaded is None:
        return {}
    text, length = ctypes.create_string_buffer(8192), ctypes.c_int()
    loaded.MPI_Get_library_version(text, ctypes.byref(length))  # allowed before MPI_Init
    version = text.value.decode(errors="replace")
    matches = ((re.search(pattern, version), flavour) for pattern, flavour in MPI_SAYS)
    match, flavour = next(((m, name) for m, name in matches if m), (None, None))
    device = re.search(r"MPICH Device:\s+(.+)", version)
    return {
        "mpi.flavour": flavour,
        "mpi.version": match and match.group(1),
        "mpi.device": device and device.group(1).strip(),
        "pmi.client": client(flavour, read("/proc/self/maps")),
    }


def client(flavour: str | None, maps: str) -> str | None:
    """What the MPI that is loaded speaks to who starts it: pmix, pmi2 or pmi1.

    Open MPI has PMIx in a plugin (to version 4) or as a library (5); MPICH has PMI-1 and PMI-2
    within itself, unless it was told to use a library.
    """
    if flavour == "openmpi":
        return "pmix"
    named = next((speaks for name, speaks in CLIENTS if name in maps), None)
    return named or ("pmi2" if flavour else None)


def pmix() -> str | None:
    """Version of the PMIx library, by its own words "OpenPMIx 4.2.2 (PMIx Standard ...)"."""
    loaded = library("libpmix.so.2")
    if not loaded:
        return None
    loaded.PMIx_Get_version.restype = ctypes.c_char_p
    match = re.search(r"\d+(\.\d+)+", loaded.PMIx_Get_version().decode())
    return match.group() if match else None


def nccl() -> str | None:
    """Version of NCCL: its wheel's, or the library's own."""
    wheel = package("nvidia-nccl-cu13", "nvidia-nccl-cu12")
    loaded = None if wheel else library("libnccl.so.2")
    if not loaded:
        return wheel
    number = ctypes.c_int()
    if loaded.ncclGetVersion(ctypes.byref(number)):
        return None
    # NCCL 2.9 went from 1000 * major + 100 * minor to 10000 * major + 100 * minor (nccl.h).
    scale = 10000 if number.value >= 10000 else 1000
    major, rest = divmod(number.value, scale)
    return f"{major}.{rest // 100}.{rest % 100}"


def cuda() -> str | None:
    """CUDA that torch was built for, "none" for a CPU build; without torch the toolkit's."""
    match = re.search(
        r"^cuda\b[^=]*= (?:'([\d.]+)'|None)", read(beside("torch", "version.py")), re.M
    )
    if match:
        return match.group(1) or "none"
    toolkit = read("/usr/local/cuda/version.json")
    return str(json.loads(toolkit)["cuda"]["version"]) if toolkit else None


def facts() -> dict[str, str | None]:
    """All facts, named as the labels of our images; None is "not here", or not to be found out."""
    presets = glob.glob(os.path.join(beside("recipes", "") or "/nowhere", "*.toml"))
    ours = importlib.util.find_spec("horovod_image") is not None
    return {
        **mpi(),  # first, because it brings its PMIx with it
        "python.version": platform.python_version(),
        "architecture": platform.machine(),
        "torch.version": package("torch"),
        "tensorflow.version": package("tensorflow", "tensorflow-cpu", "tensorflow-gpu"),
        "horovod.version": package("horovod"),
        "pmix.version": pmix(),
        "nccl.version": nccl(),
        "cuda.version": cuda(),
        "recipes": ",".join(sorted(os.path.basename(path)[:-5] for path in presets)) or None,
        "selftest": "horovod_image.selftest" if ours else None,
    }


print(json.dumps(facts()))
