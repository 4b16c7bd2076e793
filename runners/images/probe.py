"""Finds out what is in an image by looking inside: for images without our labels, and for proof."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from containers.horovod_image import selftest

from ..core.errors import SystemFault
from . import isolated_exec

SECONDS = 300  # check-build imports each framework six times, from a cold file system perhaps
# $1 is the program for Python. Each part may fail: then its answer has no version in it.
SCRIPT = """\
part() { printf '\\n== %s\\n' "$1"; }
part glibc; getconf GNU_LIBC_VERSION || ldd --version
part openmpi; ompi_info --version || mpirun --version
part mpich; mpichversion
part mpiexec; mpiexec --version
part pmix_info; pmix_info --version
part python
for python in python python3; do
    command -v "$python" > /dev/null && { "$python" -c "$1"; break; }
done
part end
"""
VERSION = r"(\d+(?:\.\d+)+\w*)"
# Part of the script, pattern with one group, fact, and flavour where it is an MPI's.
PATTERNS = (
    ("glibc", rf"(?:glibc|GNU libc|GLIBC)\D.*?{VERSION}", "glibc.version", ""),
    ("openmpi", rf"Open MPI\)? v?{VERSION}", "mpi.version", "openmpi"),
    ("mpich", rf"MPICH Version:\s+{VERSION}", "mpi.version", "mpich"),
    ("mpiexec", rf"Intel\(R\) MPI Library .*Version {VERSION}", "mpi.version", "intelmpi"),
    ("mpiexec", rf"HYDRA[\s\S]*Version:\s+{VERSION}", "mpi.version", "mpich"),
    ("pmix_info", rf"PMIx\D.*?{VERSION}", "pmix.version", ""),
)
# What is not there when neither a program nor a library of an MPI is.
MPI = ("mpi.flavour", "mpi.version", "pmi.client")
WORDS = {kind: f"horovod.{kind}" for kind in selftest.NEEDED}


def key() -> str:
    """Return a name that changes when other questions are asked of an image."""
    return hashlib.sha256((SCRIPT + _inside()).encode()).hexdigest()[:12]


def _inside() -> str:
    return Path(__file__).with_name("probe_python.py").read_text(encoding="utf-8")


def everything(image: Path) -> dict[str, str]:
    """Return the facts of `versions` and of `check_build`; raise as they do."""
    found = versions(image)
    return {**found, **check_build(image)} if found.get("horovod.version") != "none" else found


def versions(image: Path) -> dict[str, str]:
    """Return the versions found inside the image, named as our labels; "none" is "not in it".

    What could not be found out is absent. Raises SystemFault when nothing runs in it.
    """
    done = isolated_exec.run(image, ["/bin/sh", "-c", SCRIPT, "sh", _inside()], SECONDS)
    if "== end" not in done.out:
        raise SystemFault(f"nothing can be run in {image}", done.err)
    return parse(done.out)


def check_build(image: Path) -> dict[str, str]:
    """Return what Horovod was built with by its own words, nothing where it does not answer."""
    return parse_build(isolated_exec.run(image, ["horovodrun", "--check-build"], SECONDS).out)


def parse_build(text: str) -> dict[str, str]:
    """Return the facts in the output of check-build."""
    if "Available" not in text:
        return {}
    built = selftest.parse_build(text)
    return {fact: ",".join(built[kind]).lower() or "none" for kind, fact in WORDS.items()}


def parse(text: str) -> dict[str, str]:
    """Return the facts in the script's output."""
    pieces = re.split(r"^== (\w+)$", text, flags=re.MULTILINE)
    parts = dict(zip(pieces[1::2], pieces[2::2]))
    found = {**_from_tools(parts), **_from_python(parts["python"])}
    if "python.version" in found and "mpi.version" not in found:
        found.update(dict.fromkeys(MPI, "none"))
    return found


def _from_tools(parts: dict[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for part, pattern, fact, flavour in PATTERNS:
        match = re.search(pattern, parts[part])
        if match and fact not in found:
            found[fact] = match.group(1)
            if flavour:
                found["mpi.flavour"] = flavour
    return found


def _from_python(text: str) -> dict[str, str]:
    """A package that this Python does not know is not there; a library may be elsewhere."""
    try:
        facts = json.loads(text)
    except ValueError:
        return {}
    packages = ("torch.version", "tensorflow.version", "horovod.version")
    missing = {name: "none" for name in packages if facts[name] is None}
    return {**{name: value for name, value in facts.items() if value is not None}, **missing}
