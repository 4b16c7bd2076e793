"""Reads definition files: what they ask for, and what is wrong with them before a build starts.

Section and header names: Apptainer's user guide, "Definition Files".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from .errors import UsageError, nearest

SECTIONS = frozenset(
    {
        *("arguments", "setup", "files", "pre", "post", "environment", "labels", "runscript"),
        *("startscript", "test", "help", "appenv", "apphelp", "appinstall", "appfiles"),
        *("applabels", "apprun", "appstart", "apptest"),
    }
)
HEADERS = frozenset(
    {
        *("bootstrap", "from", "stage", "fingerprints", "mirrorurl", "updateurl", "osversion"),
        *("include", "includecmd", "otherurl", "registry", "namespace", "library", "product"),
        *("user", "regcode", "productpgp", "registerurl", "modules", "confurl", "setopt"),
    }
)
ARGUMENT = re.compile(r"^\s*([A-Za-z_]\w*)\s*=(.*)$")
PLACEHOLDER = re.compile(r"\{\{\s*(\w+)\s*\}\}")
HEADER = re.compile(r"^([A-Za-z]+)\s*:")


def arguments(text: str) -> Mapping[str, str]:
    """The defaults in the %arguments section of a definition's text."""
    found: dict[str, str] = {}
    for section, line in lines(text):
        if section == "arguments" and (match := ARGUMENT.match(line)):
            found[match[1]] = match[2].strip()
    return found


def lines(text: str) -> Iterable[tuple[str, str]]:
    """Each line below the section it belongs to, '' for the header; headings are left out."""
    section = ""
    for line in text.splitlines():
        if line.startswith("%"):
            section = line[1:].split()[0] if line[1:].split() else ""
        elif HEADER.match(line) and line.lower().startswith("bootstrap"):
            section = ""
        else:
            yield section, line


def has_section(text: str, name: str) -> bool:
    """Whether a definition has the section %name with something in it."""
    return any(section == name and line.strip() for section, line in lines(text))


def packages(definition: Path) -> list[str]:
    """The Debian packages a definition of ours asks for. UsageError when it names none."""
    found = arguments(definition.read_text(encoding="utf-8"))
    names = f"{found.get('packages', '')} {found.get('tools', '')}".split()
    if not names:
        raise UsageError(f"{definition.name} has no line 'packages=...' below %arguments")
    return names


def check(text: str, name: str, given: Mapping[str, str]) -> None:
    """Raise UsageError, with the line, for what Apptainer would reject or silently ignore."""
    section = ""
    if not any(line.lower().startswith("bootstrap") for line in text.splitlines()):
        raise UsageError(
            f"{name} has no line 'Bootstrap: ...': it is not a definition file\n"
            "Its first line is usually 'Bootstrap: docker'; the next 'From: debian:12-slim'."
        )
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("%"):
            section = _section(line, f"{name}, line {number}")
        elif HEADER.match(line) and line.lower().startswith("bootstrap"):
            section = ""
        if not section:
            _check_header(line, f"{name}, line {number}")
    _check_arguments(text, name, given)


def _section(line: str, where: str) -> str:
    words = line[1:].split()
    if not words or words[0] not in SECTIONS:
        near = nearest(words[0] if words else "", SECTIONS)
        raise UsageError(f"{where}: there is no section '{line.strip()}'\n  | {line}\n{near}")
    return words[0]


def _check_header(line: str, where: str) -> None:
    if not line.strip() or line.lstrip().startswith(("#", "%")):
        return
    match = HEADER.match(line)
    if match is None:
        raise UsageError(
            f"{where}: neither 'Keyword: value' nor within a section\n  | {line}\n"
            "A section starts with a line such as %post at the line's very beginning."
        )
    if match[1].lower() not in HEADERS:
        near = nearest(match[1].lower(), HEADERS)
        raise UsageError(f"{where}: there is no keyword '{match[1]}'\n  | {line}\n{near}")


def _check_arguments(text: str, name: str, given: Mapping[str, str]) -> None:
    defaults = arguments(text)
    used = set(PLACEHOLDER.findall(text))
    for word in given:
        if word not in used:
            raise UsageError(
                f"--build-arg {word}=...: {name} has no '{{{{ {word} }}}}'\n"
                f"{nearest(word, used) or 'It takes none.'}"
            )
    for number, line in enumerate(text.splitlines(), start=1):
        for word in PLACEHOLDER.findall(line):
            if word not in defaults and word not in given:
                raise UsageError(
                    f"{name}, line {number}: '{word}' has no value\n  | {line}\n"
                    f"Give one: --build-arg {word}=...; or a default below %arguments."
                )


def with_base(text: str, bootstrap: str, reference: str) -> str:
    """The definition with its first header's Bootstrap and From replaced."""
    changed, done = [], set()
    wanted = {"bootstrap": bootstrap, "from": reference}
    for line in text.splitlines():
        match = HEADER.match(line)
        key = match[1].lower() if match and not line.startswith("%") else ""
        if key in wanted and key not in done:
            line = f"{match[1]}: {wanted[key]}" if match else line
            done.add(key)
        changed.append(line)
    if "from" not in done:
        first = next(i for i, line in enumerate(changed) if line.lower().startswith("bootstrap"))
        changed.insert(first + 1, f"From: {reference}")
    return "\n".join(changed) + "\n"
