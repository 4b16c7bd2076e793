"""Prints as JSON what can be compiled in an image: of each attempt what the compiler says.

Its text goes to `python -c` in the image: standard library only, Python 3.8 or newer. "" is
success, null a program that is not there.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import Optional

CXX = (os.environ.get("CXX") or "g++").split()
PYTHON = f"-I{sysconfig.get_path('include')}"
CUDA = "-I/usr/local/cuda/include"


def complaint(command: list[str], text: str) -> Optional[str]:  # noqa: UP045 (Python 3.8)
    """What a compiler says of a program."""
    if shutil.which(command[0]) is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "try.cc")
        source.write_text(text, encoding="utf-8")
        words = [*command, str(source), "-o", str(Path(folder, "try"))]
        done = subprocess.run(words, capture_output=True, text=True)
    output = (done.stderr + done.stdout).strip().replace(f"{folder}/", "")
    return (output or f"exit code {done.returncode}") if done.returncode else ""


print(
    json.dumps(
        {
            "compiler": complaint(CXX, "int main() { return 0; }\n"),
            "make": "" if shutil.which("make") else None,
            "python": complaint([*CXX, "-c", PYTHON], "#include <Python.h>\n"),
            "mpi": complaint(
                ["mpicxx"], "#include <mpi.h>\nint main() { return MPI_Init(0, 0); }\n"
            ),
            "nvcc": "" if shutil.which("nvcc") else None,
            "nccl": complaint([*CXX, "-c", CUDA], "#include <nccl.h>\n"),
            "variables": {name: os.environ.get(name, "") for name in ("PATH", "PYTHONPATH")},
        }
    )
)
