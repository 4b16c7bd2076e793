"""Sentences of the signatures, filled with what was found in a message."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from shlex import quote
from typing import Any

# What signatures call by these names, with an image and without one (`--runtime none`)
WORDS = {
    "environment": ("image", "environment"),
    "in_container": ("in the container", "on the node"),
    "shell": ("runner shell --image {image}", "runner shell --runtime none --image {image}"),
    "install": (
        "runner build --from {image} -r more.txt -o more.sif",
        "{image}/bin/python -m pip install -r more.txt",
    ),
    "bind": ("--bind FOLDER ", ""),
}
LONGEST = 300  # characters of what a log says, in a sentence
# A name that the message does not have, until the words around it are known.
NOTHING = "\0"
AROUND_NOTHING = re.compile(rf" ?\({NOTHING}[^()]*\)|[ ,:]*(?:[^\s{NOTHING}]+=)?{NOTHING}+")
# Before what stands with no space after it, and before a further word: what leads to it stays.
LEADS_ON = re.compile(rf"{NOTHING}+(?=[^\s,;:.){NOTHING}])|(?<=[ ,:]){NOTHING}+ (?=\w)")


def worded(text: str, has_image: bool) -> str:
    """Return a text of signatures in the words for a run with an image, or without one."""
    for name, (with_image, without) in WORDS.items():
        text = text.replace(f"{{{name}}}", with_image if has_image else without)
    return text


def filled(text: str, named: Mapping[str, str]) -> str:
    """Return a sentence with what was found in it; within backquotes it is quoted for a shell."""
    parts = text.split("`")
    put = (_put(part, named, _quoted if at % 2 else _shown) for at, part in enumerate(parts))
    said = "`".join(put)
    while LEADS_ON.search(said):
        said = LEADS_ON.sub("", said)
    return AROUND_NOTHING.sub("", said).rstrip(": ")


def whole(text: str, named: Mapping[str, str]) -> str:
    """Return a sentence with what was found in it, however long that is."""
    return AROUND_NOTHING.sub("", _put(text, named, lambda value: value or NOTHING))


def typed(text: str, named: Mapping[str, str]) -> str:
    """Return a command line with what was found in it."""
    return _put(text, named, _quoted)


def inside(value: Any, named: Mapping[str, str]) -> Any:
    """Return the value of an option, its texts with what was found in them."""
    if isinstance(value, list):
        return [inside(item, named) for item in value]
    return _put(value, named, str) if isinstance(value, str) else value


def _put(text: str, named: Mapping[str, str], how: Callable[[str], str]) -> str:
    return re.sub(
        r"\{(\w+)\}", lambda name: how(named[name[1]]) if name[1] in named else name[0], text
    )


def _quoted(text: str) -> str:
    return quote(text) if text else ""


def _shown(text: str) -> str:
    """Return text of a log as one line that is not too long."""
    line = " ".join(text.split())
    return (line if len(line) <= LONGEST else f"{line[:LONGEST]} ...") or NOTHING
