"""Libraries that do not fit: the C library, the NVIDIA driver, a library that is not there."""

from __future__ import annotations

import re

from ..core.remedy import change, command
from ..injob import failure_kinds as kinds
from .explanation import Finding, Signature
from .facts import Facts
from .finding_helpers import certain, doctor, host, likely

GLIBC = re.compile(r"version [`'](GLIBC(?:XX)?_[\d.]+)' not found \(required by ([^)]+)\)")
NO_LIBRARY = re.compile(r"(lib[\w.+-]+\.so[.\d]*): cannot open shared object file")


def driver(facts: Facts) -> Finding | None:
    """The node's NVIDIA driver does not fit the image: the shim looked before the trainer."""
    record = facts.record
    if record is None or record.kind != kinds.DRIVER:
        return None
    because = "the rank tried to load the driver's library before the trainer began"
    fix = doctor(facts, "--nodelist", host(facts), "--gpus-per-node", 1)
    if record.fields["reason"] == kinds.NO_DRIVER:
        fix = change(nv=False, leave_out=["force"])
    return certain(facts, record.message, fix, *record.fields["evidence"], because=because)


def glibc(facts: Facts) -> Finding | None:
    """A library from elsewhere needs a newer C or C++ library than the image has."""
    found = GLIBC.search(facts.error)
    if not found:
        return None
    version, needed_by = found.groups()
    cause = (
        f"{needed_by} needs {version}, which the image's own C library does not have: it was "
        "built on a newer system than the image"
    )
    inside = command("apptainer", "exec", facts.image, "ldd", "--version")
    fix = change(leave_out=["bind"]) if _bound(facts, needed_by) else inside
    return certain(facts, cause, fix, because="the loader's own words")


def _bound(facts: Facts, path: str) -> bool:
    """Whether the only folder that was asked to be bound holds this file."""
    texts = [str(value) for value in facts.job.typed.values("bind")]
    targets = [text.split(":")[min(1, text.count(":"))] for text in texts]
    return len(targets) == 1 and path.startswith(targets[0].rstrip("/") + "/")


def library_missing(facts: Facts) -> Finding | None:
    """A library is not in the image."""
    found = NO_LIBRARY.search(facts.error)
    if not found:
        return None
    name = found[1]
    if name.startswith(("libcuda.", "libnvidia")):
        cause = f"{name} is the NVIDIA driver's, and the driver is not in the container"
        return certain(facts, cause, change(nv=True), because="the loader's own words")
    fix = command("apptainer", "exec", facts.image, "ldconfig", "-p")
    cause = f"the image {facts.image} does not have the library {name}, or not where it is sought"
    return likely(facts, cause, fix, because="the loader names it; it may also be of another path")


SIGNATURES = (
    Signature("driver-mismatch", driver),
    Signature("glibc-mismatch", glibc),
    Signature("library-missing", library_missing),
)
