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
    found = importlib.util.find_spec(module)
    folders = (found and found.submodule_search_locations) or []
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
        import ctypes  # a small Python may lack libffi

        return ctypes.CDLL(name)
    except (ImportError, OSError):
        return None


def pmix() -> str | None:
    """Version of the PMIx library, by its own words "OpenPMIx 4.2.2 (PMIx Standard ...)"."""
    found = library("libpmix.so.2")
    if not found:
        return None
    import ctypes

    found.PMIx_Get_version.restype = ctypes.c_char_p
    match = re.search(r"\d+(\.\d+)+", found.PMIx_Get_version().decode())
    return match.group() if match else None


def nccl() -> str | None:
    """Version of NCCL: its wheel's, or the library's own."""
    wheel = package("nvidia-nccl-cu13", "nvidia-nccl-cu12")
    found = None if wheel else library("libnccl.so.2")
    if not found:
        return wheel
    import ctypes

    number = ctypes.c_int()
    if found.ncclGetVersion(ctypes.byref(number)):
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
