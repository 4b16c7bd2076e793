"""What Horovod's extension is linked with, in ldd's words: is it the host's MPI, is it complete?"""

from __future__ import annotations

import glob
import importlib.util
import os
import re
import subprocess

FOUND = re.compile(r"^\s*(\S+) => (\S+) \(0x", re.MULTILINE)
MISSING = re.compile(r"^\s*(\S+) => not found", re.MULTILINE)
TOO_NEW = re.compile(r"version `(\S+)' not found \(required by (\S+)\)")
MPI = re.compile(r"libmpi\.so(\.\d+)*")


def libmpi() -> str | None:
    """Return where the MPI library of Horovod's extension is, "" when it is not found.

    None without an extension that is linked with one; nothing is imported.
    """
    spec = importlib.util.find_spec("horovod")
    folders = (spec and spec.submodule_search_locations) or []
    for path in (path for f in folders for path in sorted(glob.glob(f"{f}/*/mpi_lib*.so"))):
        for name, where in linked(ldd(path)).items():
            if MPI.fullmatch(name):
                return where
    return None


def ldd(path: str) -> str:
    done = subprocess.run(
        ["ldd", path],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout


def linked(text: str) -> dict[str, str]:
    """Return the libraries in ldd's answer: where each is, "" when it is not found."""
    return {**dict.fromkeys(MISSING.findall(text), ""), **dict(FOUND.findall(text))}


def problem(where: str, answer: str, library_path: str) -> str:
    """Return what is wrong with the MPI library at `where`, "" when nothing is.

    `answer` is ldd's about it, `library_path` what LD_LIBRARY_PATH is in the container.
    """
    if not where:
        return "Horovod's libmpi is not found in the image, nor among the host's libraries"
    folders = [os.path.realpath(folder) for folder in library_path.split(":") if folder]
    if os.path.dirname(os.path.realpath(where)) not in folders and (
        os.path.realpath(os.path.dirname(where)) not in folders
    ):
        return f"Horovod finds the image's own MPI, {where}; the host's are in {library_path}"
    too_new = sorted(set(TOO_NEW.findall(answer)))
    if too_new:
        version, by = too_new[-1]
        return f"the image's C library is too old for the host's MPI: {by} needs {version}"
    missing = sorted(name for name, found in linked(answer).items() if not found)
    if missing:
        return f"the host's MPI, {where}, lacks {', '.join(missing)} in the image"
    return ""
