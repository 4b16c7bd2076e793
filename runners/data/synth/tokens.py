"""Tokens of a language in which a token mostly says which one follows."""

from __future__ import annotations

import array
import json
import random
import sys
from pathlib import Path

from recipes.formats.tokens import CODES, FILES, META

from .request import Asked

SURE = 0.8  # how often the follower is the one that the token before says
WIDEST = 2**16  # tokens that a 16-bit number can hold


def write(folder: Path, asked: Asked) -> None:
    """Write as many tokens as there are samples, and their description."""
    source = random.Random(asked.seed)
    follower = [source.randrange(asked.vocabulary) for _ in range(asked.vocabulary)]
    kind = "uint16" if asked.vocabulary <= WIDEST else "uint32"
    for count, name in zip(asked.parts, FILES):
        with (folder / name).open("wb") as file:
            _text(source, follower, count, CODES[kind]).tofile(file)
    meta = {"vocabulary": asked.vocabulary, "dtype": kind}
    (folder / META).write_text(json.dumps(meta) + "\n", encoding="utf-8")


def _text(source: random.Random, follower: list[int], count: int, code: str) -> array.array[int]:
    text, token = array.array(code), 0
    for _ in range(count):
        sure = source.random() < SURE
        token = follower[token] if sure else int(source.random() * len(follower))
        text.append(token)
    if sys.byteorder == "big":
        text.byteswap()
    return text
