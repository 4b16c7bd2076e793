"""What is said of each failure, and its remedies, each answer once: for the page of sentences."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from runners.explain import judge
from runners.explain.explanation import Explanation
from runners.explain.message_signatures import BECAUSE, entries

from .cases import RUN, cases, remedies


def answers(folder: Path) -> Iterator[Explanation]:
    """Yield what is told of each message's first example, and of each case."""
    for entry in entries():
        (folder / "log").write_text(entry.examples[0].strip("\n") + "\n", encoding="utf-8")
        yield judge.explain_text(folder / "log", "log")
    for number, case in enumerate(cases()):
        yield case.told(folder / str(number))


def lines(explanation: Explanation) -> Iterator[str]:
    yield explanation.id
    yield f"  what: {explanation.what}"
    usual = explanation.because == BECAUSE[explanation.certainty]
    yield f"  {explanation.certainty.value}" + ("" if usual else f": {explanation.because}")
    yield from (f"  step: {step}" for step in explanation.steps)
    in_words = "\n".join(explanation.steps)
    yield from (f"  remedy: {remedy}" for remedy in remedies(explanation) if remedy != in_words)
    yield from (f"  fixed by: {name}" for name in [explanation.fixed_by] if name)
    yield from (f"  tell: {text}" for text in [explanation.tell] if text)


def page() -> str:
    """Return all answers, by id."""
    with tempfile.TemporaryDirectory() as folder:
        run = re.compile(rf"{re.escape(folder)}/\d+/t-1")
        told = {run.sub(RUN, "\n".join(lines(answer))) for answer in answers(Path(folder))}
        return "\n".join(sorted(told)).replace(f"{folder}/log", "LOG") + "\n"
