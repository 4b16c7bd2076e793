"""Words: help, docstrings and documentation use the terms that the field searches for."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests import documents, reference

# What we do not write -> what we write instead. On the left a regular expression, whole words.
INSTEAD = {
    r"whoever": "the actor: the user, the launcher, who can ...",
    r"what (?:came|becomes) of": "the result of",
    r"anew": "again",
    r"mends?|mended": "fix",
    r"queues? again|queued again": "requeue",
    r"go(?:es)? on from": "resume from, continue from",
    r"in vain": "timed out, without success",
    r"without a word": "silently",
    r"leads? nowhere": "has no route, does not resolve, is dangling",
    r"cut short": "truncated",
    r"half-made": "partial, incomplete",
    r"whole or not at all": "atomically",
    r"forms? (?:a|no|one|its|their) worlds?": "initialize a process group",
    r"formed (?:a|no|one|its|their) worlds?": "initialized a process group",
    r"steers?": "controls, is the controller of",
    r"travel together": "are fused (tensor fusion)",
    r"unnormali[sz]ed chances?": "logits",
    r"deal(?:t|s)? out": "shard",
    r"made[- ]up|make up": "synthetic, generate",
    r"heed(?:s|ed)?": "honor, respect",
    r"reckon(?:s|ed)?": "compute, estimate",
    r"nothing beside|nothing else on (?:it|them|the)": "otherwise idle",
    r"worth a word": "worth a warning",
    r"by hand: \w+": "without runner: ...",
    r"door": "listener, proxy",
    r"so many (?:ranks|nodes|seconds|bytes|runs|GPUs)": "a number of ..., N ...",
    r"bring(?:s|ing)? (?:it )?about": "cause, cancel",
    r"here and there": "to and from",
    r"takes? over the exit code": "exit with the job's exit code",
}

ANY_OF_THEM = re.compile(rf"\b(?:{'|'.join(INSTEAD)})\b", re.IGNORECASE)


def docstrings() -> Iterator[tuple[str, str]]:
    """Yield place and text of docstrings: of all files of the product that have such a word."""
    for folder in ("runners", "containers"):
        for file in sorted((documents.ROOT / folder).rglob("*.py")):
            code = file.read_text(encoding="utf-8")
            if not ANY_OF_THEM.search(" ".join(code.split())):
                continue
            for node in ast.walk(ast.parse(code)):
                if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                    name = file.relative_to(documents.ROOT)
                    yield f"{name}: {getattr(node, 'name', '')}", ast.get_docstring(node) or ""


def texts() -> Iterator[tuple[str, str]]:
    """Yield place and text of all that people read before they launch."""
    yield from docstrings()
    for page in documents.pages():
        yield documents.name(page), page.read_text(encoding="utf-8")
    for name, write in reference.PAGES.items():
        yield name, write()


def test_the_fields_words_are_used() -> None:
    """All in one test: each worker that takes a part of it would parse the whole product."""
    patterns = {re.compile(rf"\b(?:{wrong})\b", re.IGNORECASE): wrong for wrong in INSTEAD}
    found = []
    for place, text in texts():
        line = " ".join(text.split())
        if not ANY_OF_THEM.search(line):
            continue
        found += [
            f"{place}: ...{line[max(match.start() - 40, 0) : match.end() + 40]}..."
            f" (write: {INSTEAD[wrong]})"
            for pattern, wrong in patterns.items()
            for match in pattern.finditer(line)
        ]
    assert not found, "\n".join(found)
