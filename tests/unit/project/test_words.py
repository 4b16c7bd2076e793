"""Words: help, messages, comments and documentation use the terms that the field searches for."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests import documents

# What we do not write -> what we write instead. On the left a regular expression, whole words.
INSTEAD = {
    r"whoever": "the actor: the user, the launcher, who can ...",
    r"what (?:came|became|becomes) of": "the result of",
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


# Between two lines of a comment, and between two parts of a string.
BETWEEN_LINES = re.compile(r"""\n\s*#|["']\s*\n\s*f?["']""")


def texts() -> Iterator[tuple[str, str]]:
    """Yield place and text of the documentation, and of each file of the product as it is written.

    The text of a whole file has help, messages, docstrings and comments, without a parser.
    """
    pages = [documents.ROOT / f"{name}.md" for name in ("CONTRIBUTING", "SECURITY")]
    for page in (*pages, *documents.pages()):
        yield documents.name(page), page.read_text(encoding="utf-8")
    for folder in ("runners", "containers", "recipes", "addons/convert/runner_convert"):
        for file in sorted((documents.ROOT / folder).rglob("*.*")):
            if file.suffix in (".py", ".sh", ".toml"):
                text = BETWEEN_LINES.sub("", file.read_text(encoding="utf-8"))
                yield str(file.relative_to(documents.ROOT)), text


def test_the_fields_words_are_used() -> None:
    """All in one test, as it takes less than a second."""
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
