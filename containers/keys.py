"""Keys: a result is named by the content of everything that decides what is in it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from .errors import Refused

ARGUMENT = re.compile(r"^\s+([A-Za-z_]\w*)=(.*)$")


def key(**inputs: str) -> str:
    """16 hexadecimal digits that change when any input changes, its name included."""
    text = json.dumps(inputs, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def of_files(files: Iterable[Path], base: Path) -> str:
    """One key over names (relative to `base`) and contents."""
    digests = {str(f.relative_to(base)): hashlib.sha256(f.read_bytes()).hexdigest() for f in files}
    return key(**digests)


def arguments(definition: str) -> Mapping[str, str]:
    """The defaults in the %arguments section of a definition file's text."""
    found: dict[str, str] = {}
    inside = False
    for line in definition.splitlines():
        if line.startswith("%"):
            inside = line.split()[0] == "%arguments"
        elif inside and (match := ARGUMENT.match(line)):
            found[match[1]] = match[2].strip()
    return found


def packages(definition: Path) -> list[str]:
    """The Debian packages a definition asks for. Refused when it names none."""
    names = arguments(definition.read_text(encoding="utf-8")).get("packages", "").split()
    if not names:
        raise Refused(f"{definition.name} has no line 'packages=...' below %arguments")
    return names
