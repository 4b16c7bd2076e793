"""Tokens of a language model: `train.bin` and `val.bin`, raw little-endian numbers, `meta.json`.

That is what nanoGPT's preparation scripts write, and {"vocabulary": 50257, "dtype": "uint16"}.
"""

from __future__ import annotations

import json
from pathlib import Path

from . import FormatError

FILES = ("train.bin", "val.bin")
META = "meta.json"
#: Kinds of token numbers, as codes of the module array; little-endian on every machine.
CODES = {"uint16": "H", "uint32": "I"}


def read_meta(path: Path, vocabulary: int | None = None) -> tuple[int, str]:
    """Return the size of the vocabulary and the kind of numbers; `vocabulary` goes before its own.

    Raises FileNotFoundError, and FormatError for what is not understood.
    """
    try:
        meta = json.loads(path.read_text(encoding="utf-8"))
        size, kind = vocabulary or meta["vocabulary"], meta.get("dtype", "uint16")
    except FileNotFoundError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"has no vocabulary: {type(error).__name__}: {error}") from error
    if not isinstance(size, int) or size < 1 or kind not in CODES:
        raise FormatError(f"vocabulary {size!r}, dtype {kind!r}: not {' or '.join(CODES)}")
    return size, kind
