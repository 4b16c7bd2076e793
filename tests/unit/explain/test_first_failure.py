"""What others say of a rank that ended, and what a rank survived, is no cause."""

from __future__ import annotations

from pathlib import Path

import pytest

from runners.contract.failure_kinds import FailureKind
from runners.explain.first_failure import as_logged, without_ignored
from runners.explain.judge import PATTERNS
from runners.explain.read_facts import facts
from runners.explain.searched_text import LONGEST_MESSAGE, text_of
from runners.injob import problems

from .runs import FAILED, explained, made
from .test_signatures import log_of


@pytest.mark.parametrize(
    "error", ["ncclCommInitRank failed: invalid usage", "Mismatched ALLREDUCE tensor shapes: x"]
)
def test_an_error_of_its_own_in_the_same_words_is_not_a_followers(error: str) -> None:
    horovods = type("HorovodInternalError", (RuntimeError,), {})(error)
    assert problems.of_exception(1, horovods, []).kind == FailureKind.EXCEPTION


TRACEBACK = 'Traceback (most recent call last):\n  File "/w/t.py", line 3, in <module>\n'
KEY = f"{TRACEBACK}KeyError: 'lr'\n"
END = "srun: error: n3: task 0: Exited with exit code 1\n"


def test_an_exception_that_python_ignored_is_none_however_far_above(tmp_path: Path) -> None:
    steps = "step 1\n" * 400  # more than the last lines that are kept
    log = f"Exception ignored in: <f>\n{TRACEBACK}OSError: x\n{steps}{END}"
    assert explained(tmp_path, log).id == "unknown"


def test_of_several_ranks_without_labels_the_first_exception_counts(tmp_path: Path) -> None:
    paths, job = made(tmp_path, f"{KEY}step 3\n{TRACEBACK}OddError: x\n{END}")
    log = facts(paths, job, FAILED, PATTERNS).log
    errors = [as_logged(None, log, several) for several in (True, False)]
    assert [first.record.error for first in errors if first and first.record] == [
        "KeyError: 'lr'",
        "OddError: x",
    ]


def test_a_line_among_those_of_an_ignored_exception_is_kept() -> None:
    ignored = ["Exception ignored in: <f>", *TRACEBACK.splitlines(), "OSError: x"]
    assert not [*without_ignored(log_of(ignored).lines)]
    memory = "torch.OutOfMemoryError: CUDA out of memory"
    mixed = log_of([*ignored[:1], memory, *ignored[1:]])
    assert [line.text for line in without_ignored(mixed.lines)][:1] == [memory]
    labelled = log_of([*ignored[:2], f"[rank1]: {memory}", *ignored[2:]])
    assert [line.text for line in without_ignored(labelled.lines)] == [f"[rank1]: {memory}"]


def test_of_an_endless_line_only_the_begin_is_searched(tmp_path: Path) -> None:
    """Else expressions that take the square of its length would search for minutes."""
    error = "RuntimeError: " + "Assertion `input_val " * 4000
    paths, job = made(tmp_path, "", (0, 1.0, error))
    assert len(text_of(facts(paths, job, FAILED, ())).error) <= LONGEST_MESSAGE
