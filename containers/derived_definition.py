"""An image made from another: the text of its definition and what it inherits. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import definition, lockfile
from .errors import UsageError
from .space import Needs

# Where the files of a derived build are bound while it runs; nothing of it is in the image.
STAGE = "/mnt"
DIGEST_LABEL = "org.opencontainers.image.base.digest"
RUNTIMES_OWN = "org.label-schema."  # labels that Apptainer gives each image it builds
# PEP 440; distributions patch some packages and number them in their own way.
VERSION = re.compile(
    r"(\d+!)?\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?(\+[a-z0-9]+([._-][a-z0-9]+)*)?"
)
MISSING = re.compile(
    r"(?:No matching distribution found for|that satisfies the requirement) ([^\s;(]+)"
)
# New packages only: compiling all of a large image anew would take minutes.
COMPILE = """\
import re, sys
from importlib.metadata import files
for line in open("/mnt/requirements.txt"):
    for file in files(re.split("[ =]", line)[0]) or ():
        if file.suffix == ".py":
            print(file.locate())
"""
INSTALL = """\
    set -eu
    pip() {{
        PIP_CONFIG_FILE=/dev/null PIP_BREAK_SYSTEM_PACKAGES=1 {python} -s -m pip "$@"
    }}
    pip install --quiet --disable-pip-version-check --root-user-action ignore --no-cache-dir \\
        --no-index --find-links {stage}/wheels --no-deps --no-compile --require-hashes \\
        -r {stage}/requirements.txt
    {python} -s {stage}/list.py | {python} -m compileall -q -i - \\
        --invalidation-mode unchecked-hash || [ $? -eq 1 ]  # 1: some cannot be compiled
    {python} -s -B {stage}/import_added.py {stage}/requested.txt 2>&1
"""
# An image of ours tells what is in it; that is told anew. `added.lock` adds the new hashes.
RENEW = """\
    cat {stage}/labels >> "$APPTAINER_LABELS"
    if [ -e /opt/horovod/sbom.cdx.json ]; then
        [ ! -e {stage}/added.lock ] || cat {stage}/added.lock >> /opt/horovod/added.lock
        export TF_CPP_MIN_LOG_LEVEL=3
        /opt/horovod/bin/python -B -m horovod_image.sbom > /opt/horovod/sbom.new
        mv /opt/horovod/sbom.new /opt/horovod/sbom.cdx.json
        /opt/horovod/bin/python -B -m horovod_image.labels >> "$APPTAINER_LABELS"
    fi
"""


@dataclass(frozen=True)
class Base:
    """The image that another is made from."""

    path: Path
    digest: str  # SHA-256, hexadecimal
    labels: Mapping[str, str]
    size: int  # bytes


@dataclass(frozen=True)
class Inside:
    """The Python of an image, and the versions of the packages it sees."""

    python: str
    pip: str  # its version, "" where there is none
    packages: Mapping[str, str]

    @classmethod
    def parse(cls, text: str) -> Inside:
        """Of the JSON that `added_packages.PROBE` prints."""
        return cls(**json.loads(text))


def with_packages(base: str, python: str) -> str:
    """The definition of the image file `base` with more packages for its program `python`."""
    body = INSTALL.format(python=python, stage=STAGE) + RENEW.format(stage=STAGE)
    return f"Bootstrap: localimage\nFrom: {base}\n\n%post\n{body}"


def with_definition(base: Base, text: str, name: str, given: Mapping[str, str]) -> str:
    """The user's definition on top of the base. Raises UsageError."""
    definition.check(text, name, given)
    headers = [line for line in text.splitlines() if line.lower().startswith("bootstrap")]
    if len(headers) > 1:
        raise UsageError(
            f"{name} has {len(headers)} stages, and --from replaces the base of one.\n"
            f"Write into it where the image belongs: 'Bootstrap: localimage', 'From: {base.path}',"
            f" then: runner build {name}"
        )
    if set("#\n") & set(str(base.path)):
        raise UsageError(f"--from {base.path}: a definition cannot name a path with '#' in it")
    changed = definition.with_base(text, "localimage", str(base.path))
    return f"{changed}\n%post\n{RENEW.format(stage=STAGE)}"


def labels(base: Base, created: str) -> dict[str, str]:
    """What the new image is told of its base; `created` is a time as in RFC 3339."""
    kept = {k: v for k, v in base.labels.items() if not k.startswith(RUNTIMES_OWN)}
    return {
        **kept,
        "org.opencontainers.image.created": created,
        "org.opencontainers.image.base.name": base.path.name,
        DIGEST_LABEL: f"sha256:{base.digest}",
    }


def render_labels(found: Mapping[str, str]) -> str:
    """Lines for $APPTAINER_LABELS."""
    return "".join(f"{key} {' '.join(value.split())}\n" for key, value in found.items())


def needs(base: Base) -> Needs:
    """Of a build: the base unpacked, and the new image."""
    # Measured: ours, of 0.49 and 3.92 GB, are 1.9 and 8.1 GB unpacked, in 46,000 files each. That
    # and the new image, with room for packages.
    return Needs(33 * base.size // 10 + 9 * 10**8, 60_000)


@dataclass(frozen=True)
class Addition:
    """A package that pip wants to add; `url` only when the user named the file itself."""

    name: str
    version: str
    sha256: str = ""
    url: str = ""
    requested: bool = False  # by the user, and not by another package


def additions(report: str) -> list[Addition]:
    """What pip's installation report (version 1 of its format) lists."""
    return [_addition(item) for item in json.loads(report)["install"]]


def _addition(item: Mapping[str, Mapping[str, object]]) -> Addition:
    source = item["download_info"]
    archive = source.get("archive_info")
    hashes = archive.get("hashes") if isinstance(archive, dict) else None
    return Addition(
        name=str(item["metadata"]["name"]),
        version=str(item["metadata"]["version"]),
        sha256=hashes.get("sha256", "") if isinstance(hashes, dict) else "",
        url=str(source["url"]) if item.get("is_direct") else "",
        requested=bool(item.get("requested")),
    )


def pins(found: Sequence[Addition]) -> str:
    """A requirements file of exactly these; with hashes when all are known."""
    hashed = all(item.sha256 and not item.url for item in found)
    return "".join(f"{_pin(item, hashed)}\n" for item in found)


def _pin(item: Addition, hashed: bool) -> str:
    if item.url:
        return f"{item.name} @ {item.url}"
    return f"{item.name}=={item.version}" + (f" --hash=sha256:{item.sha256}" if hashed else "")


def constraints(packages: Mapping[str, str]) -> str:
    """A constraints file that keeps every package of the image as it is."""
    return "".join(
        f"{name}=={version}\n"
        for name, version in sorted(packages.items())
        if VERSION.fullmatch(version)
    )


def held(log: str) -> list[str]:
    """The packages of the image that pip says cannot stay as they are, as NAME==VERSION."""
    mark = "(constraint) "
    return sorted({line.partition(mark)[2].strip() for line in log.splitlines() if mark in line})


def lock(files: Iterable[tuple[str, str]]) -> str:
    """A requirements file of (file name of a wheel, SHA-256) with hashes."""
    lines = []
    for name, digest in sorted(files):
        distribution, version = name.split("-")[:2]
        lines.append(lockfile.Pin(lockfile.normalised(distribution), version, digest).line())
    return "\n".join(lines) + "\n"


def missing(log: str) -> str:
    """The requirement for which pip found no file, "" when its log says no such thing."""
    match = MISSING.search(log)
    return match[1] if match else ""
