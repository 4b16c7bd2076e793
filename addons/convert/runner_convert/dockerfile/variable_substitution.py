"""The forms in which a Dockerfile names variables: $NAME, ${NAME:-word}, ${NAME#pattern}. Pure.

Texts are as in double quotes of a shell. Docker's documentation, "Dockerfile reference",
Environment replacement.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import translate

NAME = re.compile(r"\w+")
# What a shell in the image knows too; ${NAME/a/b} only some of them.
OPERATORS = (":-", ":+", ":?", "-", "+", "?", "##", "#", "%%", "%", "//", "/")
# Name, operator ("" for none) and word of a variable -> its text, or None to leave it as it is.
Resolve = Callable[[str, str, str], "str | None"]


def substitute(text: str, resolve: Resolve) -> str:
    """The text with each variable replaced."""
    made, place = [], 0
    while place < len(text):
        end = place + 1
        if text[place] == "\\":
            end = place + 2
            made.append(text[place:end])
        elif text[place] == "$" and (variable := _variable(text, place)):
            name, operator, word, end = variable
            value = resolve(name, operator, substitute(word, resolve))
            made.append(text[place:end] if value is None else value)
        else:
            made.append(text[place])
        place = end
    return "".join(made)


def _variable(text: str, place: int) -> tuple[str, str, str, int] | None:
    """Name, operator and word of the variable at a $, and where it ends."""
    if text[place + 1 : place + 2] != "{":
        match = NAME.match(text, place + 1)
        return (match[0], "", "", match.end()) if match else None
    match, end = NAME.match(text, place + 2), _end(text, place + 2)
    if match is None or end < 0:
        return None
    rest = text[match.end() : end]
    operator = next((known for known in OPERATORS if rest.startswith(known)), "")
    return (match[0], operator, rest[len(operator) :], end + 1) if operator or not rest else None


def _end(text: str, place: int) -> int:
    """Where the brace closes that stands before `place`; -1 for nowhere."""
    depth = 1
    while place < len(text):
        if text[place] == "\\":
            place += 1
        elif text.startswith("${", place):
            depth, place = depth + 1, place + 1
        elif text[place] == "}":
            depth -= 1
            if not depth:
                return place
        place += 1
    return -1


def apply(value: str | None, operator: str, word: str) -> str:
    """What ${NAME} with an operator comes to; `value` is None for a variable that is not set."""
    known = value is not None and (value != "" or not operator.startswith(":"))
    if operator in (":-", "-"):
        return value or "" if known else word
    if operator in (":+", "+"):
        return word if known else ""
    text = value or ""
    if operator in ("/", "//"):
        pattern, _, replacement = word.partition("/")
        count = 1 if operator == "/" else 0
        return re.sub(_pattern(pattern), lambda _: replacement, text, count=count)
    if operator in ("#", "##", "%", "%%"):
        return _trimmed(text, operator, word)
    return text


def _pattern(pattern: str) -> str:
    return translate(pattern).removesuffix(r"\z").removesuffix(r"\Z")


def _trimmed(text: str, operator: str, pattern: str) -> str:
    """Without what matches at the start (#) or end (%), the longest for a double operator."""
    whole, places = re.compile(translate(pattern)), range(len(text) + 1)
    front = operator[0] == "#"
    parts = [(text[:place], text[place:]) for place in places]
    if front == (len(operator) == 2):
        parts.reverse()
    for before, after in parts:
        if whole.match(before if front else after):
            return after if front else before
    return text
