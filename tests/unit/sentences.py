"""Sentences stand on one page, `sentences.txt`; tests compare ids and remedies.

`python3 -m tests.unit.sentences` writes the page after a change of words: it runs the tests whose
errors, refusals and warnings are on it, and asks what `explain` says of each of its cases. What has
no id, as the errors of trainers, is on it below the name of the test.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from textwrap import indent
from typing import TypeVar

import pytest

from runners.core import diagnosis
from runners.core.diagnosis import Diagnosis
from runners.core.errors import RunnerError
from runners.core.version import __version__

ROOT = Path(__file__).parents[2]
PAGE = Path(__file__).parent / "sentences.txt"
ERRORS = "# What commands refuse, what plans warn of, and what trainers and builds say\n\n"
EXPLAINED = "\n# What explain says\n\n"
USED = re.compile(r"\bsentences\.(told|ids|raises|said|refuses)\(")  # by each module that compares
TESTS = ("tests/unit/*/test_*.py", "addons/*/tests/**/test_*.py")
ON_THE_PAGE = "tests/unit/explain/test_cases.py::test_all_that_is_said_is_on_one_page"
SHORT = re.compile(r"[\w.,:<> =+-]{1,60}\]")  # the name of a test's case, after the bracket
VARYING = {  # from one run of the tests to the next, or from one machine to another
    "FOLDER": re.compile(r"/[^\s']*/pytest-of-[^/]+/pytest-\d+/(popen-gw\d+/)?[^/:\s']*\w"),
    "local-NUMBER": re.compile(r"\blocal-\d+(-\d+)?"),  # a job of this machine, by its process
    "process NUMBER on HOST": re.compile(r"\bprocess \d+ on \S+"),
    "127.0.0.1:PORT": re.compile(r"\b127\.0\.0\.1:\d{4,}"),  # a test's own server
    "SIZE are free": re.compile(r"[\d.]+ \w?B are free"),
    "(MODE)": re.compile(r"\([d-][rwx-]{9}\)"),  # the umask's part of it
    "runner VERSION": re.compile(rf"\brunner {re.escape(__version__)}"),
    "maximum recursion depth exceeded": re.compile("maximum recursion depth exceeded.*"),
    "or is damaged: NUMPY SAYS WHY": re.compile("or is damaged: .*"),
    "cannot reshape": re.compile("cannot reshape array of size.*"),  # numpy's words too
    "the connection ended": re.compile("Connection reset by peer|Broken pipe"),
}
Error = TypeVar("Error", bound=Exception)
recorded: set[str] | None = None  # while the page is written


def told(found: RunnerError | Diagnosis) -> tuple[str, ...]:
    """Return the id and the remedies of what was found; its sentence has to be on the page."""
    kind = type(found).__name__ if isinstance(found, RunnerError) else found.severity
    found = found.diagnosis if isinstance(found, RunnerError) else found
    _expect(f"{found.id} ({kind})", "\n".join(diagnosis.lines(found)))
    return (found.id, *map(str, found.remedies))


def said(text: str) -> str:
    """Return a text without an id; it has to be on the page, below the name of the test."""
    file, _, test = os.environ["PYTEST_CURRENT_TEST"].partition("::")
    module = Path(file).with_suffix("")
    name, _, case = test.rpartition(" (")[0].partition("[")
    case = f"[{case}" if SHORT.fullmatch(case) else ""
    _expect(f"{module.parent.name}/{module.name}: {name}{case}", text)
    return text


def _expect(title: str, text: str) -> None:
    for name, varying in VARYING.items():
        text = varying.sub(name, text)
    lines = [line.rstrip() for line in text.rstrip().splitlines()]
    entry = title + "\n" + indent("\n".join(lines), "  ") + "\n"
    if recorded is None:
        assert entry in _known(), f"not on the page: {entry}python3 -m tests.unit.sentences"
    else:
        recorded.add(entry)


def ids(found: Iterable[Diagnosis]) -> list[str]:
    """Return the ids of what was found, all of which has to be on the page."""
    return [told(item)[0] for item in found]


@contextmanager
def raises(id: str, *remedies: str) -> Iterator[pytest.ExceptionInfo[RunnerError]]:
    """Expect an error with this id, whose first remedies are these."""
    with pytest.raises(RunnerError) as caught:
        yield caught
    found = told(caught.value)[: 1 + len(remedies)]
    assert found == (id, *remedies), found


@contextmanager
def refuses(kind: type[Error]) -> Iterator[pytest.ExceptionInfo[Error]]:
    """Expect an error that has no id: its text has to be on the page."""
    with pytest.raises(kind) as caught:
        yield caught
    said(str(caught.value))


def explained() -> str:
    """Return the part of the page with what `explain` says."""
    return PAGE.read_text(encoding="utf-8").partition(EXPLAINED)[2]


@cache
def _known() -> frozenset[str]:
    errors = PAGE.read_text(encoding="utf-8").partition(EXPLAINED)[0].removeprefix(ERRORS)
    return frozenset(re.split(r"^(?=\S)", errors, flags=re.MULTILINE))


def write() -> None:
    """Write the page: what the tests that compare ids and the cases of `explain` say now."""
    from tests.unit import sentences  # the module that the tests import, which this one is not

    from .explain.sentences import page

    sentences.recorded = set()
    modules = sorted(path for pattern in TESTS for path in ROOT.glob(pattern))
    comparing = [str(path) for path in modules if USED.search(path.read_text(encoding="utf-8"))]
    command = ["-q", "-p", "no:xdist", "-p", "no:cacheprovider", f"--deselect={ON_THE_PAGE}"]
    if code := pytest.main([*command, *comparing]):
        sys.exit(code)
    text = ERRORS + "".join(sorted(sentences.recorded)) + EXPLAINED + page()
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
