"""Licences as CycloneDX wants them, from what packages say of themselves.

An SPDX identifier only where the package's own words have one meaning; else those words as a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

Licence = dict[str, Any]

# Words of Python packages (field License, classifiers) -> SPDX identifier.
PYTHON = {
    "0bsd": "0BSD",
    "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache-2.0": "Apache-2.0",
    "3-clause bsd license": "BSD-3-Clause",
    "bsd 3-clause": "BSD-3-Clause",
    "bsd-2-clause": "BSD-2-Clause",
    "bsd-3-clause": "BSD-3-Clause",
    "isc": "ISC",
    "mit": "MIT",
    "mit license": "MIT",
    "mit-0": "MIT-0",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "mpl-2.0": "MPL-2.0",
    "psf-2.0": "PSF-2.0",
}
# Short names of Debian's copyright format 1.0 -> SPDX identifier. "GPL-2" there means that version
# only; Expat is what SPDX calls MIT.
DEBIAN = {
    "Apache-2.0": "Apache-2.0",
    "Artistic-2.0": "Artistic-2.0",
    "BSD-2-clause": "BSD-2-Clause",
    "BSD-3-clause": "BSD-3-Clause",
    "CC0-1.0": "CC0-1.0",
    "Expat": "MIT",
    "GPL-1+": "GPL-1.0-or-later",
    "GPL-2": "GPL-2.0-only",
    "GPL-2+": "GPL-2.0-or-later",
    "GPL-3": "GPL-3.0-only",
    "GPL-3+": "GPL-3.0-or-later",
    "ISC": "ISC",
    "LGPL-2": "LGPL-2.0-only",
    "LGPL-2+": "LGPL-2.0-or-later",
    "LGPL-2.1": "LGPL-2.1-only",
    "LGPL-2.1+": "LGPL-2.1-or-later",
    "LGPL-3": "LGPL-3.0-only",
    "LGPL-3+": "LGPL-3.0-or-later",
    "MPL-2.0": "MPL-2.0",
    "Zlib": "Zlib",
}
# Longer texts in a field for a name are the licence itself, or a sentence about it.
NAME = re.compile(r"[\w .,+/()-]{1,60}")
COMMON = re.compile(r"/usr/share/common-licenses/([A-Za-z0-9.-]*[A-Za-z0-9])")
FIELD = re.compile(r"^License:[ \t]*(.*?)[ \t]*$", re.MULTILINE)
OSI = "License :: OSI Approved :: "


def of_python(expression: str, text: str, classifiers: Iterable[str]) -> list[Licence]:
    """Return the licences of a Python package from its fields, "" where it has none.

    The expression of PEP 639 comes first, then the field License, then the classifiers.
    """
    if expression:
        return [{"expression": expression}]
    if NAME.fullmatch(text.strip()):
        return _unique([text.strip()], PYTHON)
    names = [name[len(OSI) :] for name in classifiers if name.startswith(OSI)]
    return _unique(names, PYTHON)


def of_debian(copyright: str) -> list[Licence]:
    """Return the licences in a Debian copyright file.

    Where it is not in the machine-readable format 1.0, those common licences that it points to.
    """
    if not copyright.startswith("Format:"):
        return _unique(COMMON.findall(copyright), {})
    return _unique(filter(NAME.fullmatch, FIELD.findall(copyright)), DEBIAN)


def _unique(names: Iterable[str], ids: dict[str, str]) -> list[Licence]:
    known = {name.lower(): id for name, id in ids.items()}
    found = {known.get(name.lower(), name): name.lower() in known for name in names}
    return [{"license": {"id" if found[name] else "name": name}} for name in sorted(found)]
