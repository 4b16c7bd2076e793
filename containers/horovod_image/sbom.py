"""Print the bill of materials of the image: its Debian and Python packages with their licences.

Usage: python -m horovod_image.sbom > /opt/horovod/sbom.cdx.json

CycloneDX 1.6 (cyclonedx.org/docs/1.6/json). The same packages give the same bytes: components are
sorted, there is no random serial number, and the time is SOURCE_DATE_EPOCH's or left out. A licence
has an SPDX identifier only where the package's own words have one meaning; else those words.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any
from urllib.parse import quote

Component = dict[str, Any]
Licence = dict[str, Any]
SCHEMA = "http://cyclonedx.org/schema/bom-1.6.schema.json"
PIN = re.compile(r"^(\S+)==(\S+)((?: --hash=sha256:[0-9a-f]{64})+)$", re.MULTILINE)
DPKG = ["dpkg-query", "--show", "--showformat=${Package}\t${Version}\t${Architecture}\n"]
DOCUMENTATION = Path("/usr/share/doc")


def _same(*names: str) -> dict[str, str]:
    return {name.lower(): name for name in names}


# Words of Python packages (field License, classifiers), in small letters -> SPDX identifier.
PYTHON = {
    **_same("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC"),
    **_same("MIT", "MIT-0", "MPL-2.0", "PSF-2.0"),
    "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "3-clause bsd license": "BSD-3-Clause",
    "bsd 3-clause": "BSD-3-Clause",
    "mit license": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
}
# Short names of Debian's copyright format 1.0 -> SPDX identifier. "GPL-2" there means that version
# only; Expat is what SPDX calls MIT.
DEBIAN = {
    **_same("Apache-2.0", "Artistic-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC"),
    **_same("MPL-2.0", "Zlib"),
    "expat": "MIT",
    **{
        f"{name}-{version.removesuffix('.0')}{mark}".lower(): f"{name}-{version}-{which}"
        for name, versions in (("GPL", ("1.0", "2.0", "3.0")), ("LGPL", ("2.0", "2.1", "3.0")))
        for version in versions
        for mark, which in (("", "only"), ("+", "or-later"))
    },
}
# Longer texts in a field for a name are the licence itself, or a sentence about it.
NAME = re.compile(r"[\w .,+/()-]{1,60}")
COMMON = re.compile(r"/usr/share/common-licenses/([A-Za-z0-9.-]*[A-Za-z0-9])")
FIELD = re.compile(r"^License:[ \t]*(.*?)[ \t]*$", re.MULTILINE)
OSI = "License :: OSI Approved :: "


def purl(kind: str, name: str, version: str, **qualifiers: str) -> str:
    """Return a package's URL (github.com/package-url/purl-spec)."""
    # The specification leaves a colon as it is, which Debian's versions have.
    url = f"pkg:{kind}/{quote(name)}@{quote(version, safe=':')}"
    extra = "&".join(f"{key}={quote(text)}" for key, text in sorted(qualifiers.items()))
    return f"{url}?{extra}" if extra else url


def locked_hashes(text: str) -> dict[tuple[str, str], list[str]]:
    """Return the SHA-256 sums that a lock names for (package, version)."""
    return {
        (normal(name), version): re.findall(r"sha256:(\w+)", hashes)
        for name, version, hashes in PIN.findall(text)
    }


def normal(name: str) -> str:
    """Return a Python package's name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def python_component(
    package: Distribution, hashes: Mapping[tuple[str, str], list[str]]
) -> Component:
    """Return one Python package; its hash only where the lock allows a single archive."""
    fields = package.metadata
    name, version = normal(fields["Name"]), fields["Version"]
    url = purl("pypi", name, version)
    expression, *_ = fields.get_all("License-Expression") or [""]
    text, *_ = fields.get_all("License") or [""]
    found = python_licences(expression, text, fields.get_all("Classifier") or [])
    sums = hashes.get((name, version), [])
    known = [{"alg": "SHA-256", "content": sums[0]}] if len(sums) == 1 else []
    return component(url, fields["Name"], version, found, known)


def component(
    url: str,
    name: str,
    version: str,
    found: list[Licence],
    hashes: list[dict[str, str]] | None = None,
) -> Component:
    """Return a library; what is not known is left out."""
    made: Component = {"type": "library", "bom-ref": url, "name": name, "version": version}
    made["purl"] = url
    if found:
        made["licenses"] = found
    if hashes:
        made["hashes"] = hashes
    return made


def debian_components(listing: str, system: Mapping[str, str], folder: Path) -> Iterator[Component]:
    """Yield the packages of dpkg's listing; `folder` holds a copyright file for each."""
    distribution = f"{system['ID']}-{system['VERSION_ID']}"
    for line in listing.splitlines():
        name, version, architecture = line.split("\t")
        url = purl(f"deb/{system['ID']}", name, version, arch=architecture, distro=distribution)
        file = folder / name / "copyright"
        text = file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""
        yield component(url, name, version, debian_licences(text))


def python_licences(expression: str, text: str, classifiers: Iterable[str]) -> list[Licence]:
    """Return the licences of a Python package from its fields, "" where it has none.

    The expression of PEP 639 comes first, then the field License, then the classifiers.
    """
    if expression:
        return [{"expression": expression}]
    if NAME.fullmatch(text.strip()):
        return _unique([text.strip()], PYTHON)
    names = [name[len(OSI) :] for name in classifiers if name.startswith(OSI)]
    return _unique(names, PYTHON)


def debian_licences(copyright: str) -> list[Licence]:
    """Return the licences in a Debian copyright file.

    Where it is not in the machine-readable format 1.0, those common licences that it points to.
    """
    if not copyright.startswith("Format:"):
        return _unique(COMMON.findall(copyright), {})
    return _unique(filter(NAME.fullmatch, FIELD.findall(copyright)), DEBIAN)


def _unique(names: Iterable[str], known: Mapping[str, str]) -> list[Licence]:
    found = {known.get(name.lower(), name): name.lower() in known for name in names}
    return [{"license": {"id" if found[name] else "name": name}} for name in sorted(found)]


def document(components: list[Component], system: Mapping[str, str], epoch: str) -> dict[str, Any]:
    """Return the whole bill; `epoch` is a time in seconds since 1970 as text, or ""."""
    # Two folders of sys.path that are one (lib, lib64) give a package twice.
    unique = {str(item["bom-ref"]): item for item in components}
    distribution = {"type": "operating-system", "name": system["ID"]}
    distribution["version"] = system["VERSION_ID"]
    versions = [item["version"] for item in components if item["name"] == "horovod"]
    subject = {"type": "container", "name": "horovod-image"}
    if versions:
        subject["version"] = versions[0]
    metadata: dict[str, Any] = {"component": subject}
    if epoch:
        when = datetime.datetime.fromtimestamp(int(epoch), datetime.timezone.utc)
        metadata["timestamp"] = when.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "$schema": SCHEMA,
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": metadata,
        "components": [distribution, *(unique[url] for url in sorted(unique))],
    }


def bill() -> dict[str, Any]:
    """Return the bill of the image that this runs in; locks lie in Python's own folder."""
    system = platform.freedesktop_os_release()
    locks = "\n".join(path.read_text(encoding="utf-8") for path in Path(sys.prefix).glob("*.lock"))
    hashes = locked_hashes(locks)
    listing = subprocess.run(DPKG, check=True, capture_output=True, text=True).stdout
    found = [python_component(package, hashes) for package in distributions()]
    found += debian_components(listing, system, DOCUMENTATION)
    return document(found, system, os.environ.get("SOURCE_DATE_EPOCH", ""))


if __name__ == "__main__":
    json.dump(bill(), sys.stdout, indent=1, sort_keys=True, ensure_ascii=True)
    print()
