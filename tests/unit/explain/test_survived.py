"""What a rank wrote and survived is not the cause of its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from runners.explain.first_failure import as_logged, without_ignored
from runners.explain.judge import PATTERNS, explain
from runners.explain.read_facts import facts
from runners.explain.searched_text import LONGEST_MESSAGE, text_of
from runners.injob.rank import problems

from ..failures import leave
from .test_certainty import SRUN
from .test_facts import FAILED, explained, made
from .test_signatures import log_of

TRACEBACK = 'Traceback (most recent call last):\n  File "/w/t.py", line 3, in <module>\n'
MISSING = f"{TRACEBACK}ModuleNotFoundError: No module named 'wandb'\n"
OFFLINE = f"{TRACEBACK}requests.exceptions.ConnectionError: host='api.wandb.ai': Max retries\n"
KEY = f"{TRACEBACK}KeyError: 'lr'\n"
STEPS = "step 1\n" * 400  # more than the last lines that are kept
END = SRUN.format(code=1)
FATAL = "FATAL:   container creation failed: mount /x error\n"


@pytest.mark.parametrize(
    ("log", "name"),
    [
        (f"{MISSING}step 1\n{KEY}{END}", "key-missing"),
        (f"{OFFLINE}wandb: offline\n{KEY}{END}", "key-missing"),
        (f"{MISSING}step 1\nslurm_script: line 12: 4242 Segmentation fault t.py\n", "crash"),
        (f"{MISSING}{FATAL}{END}", "container-failed"),
        (f"{KEY}step 3\n{TRACEBACK}ConnectionResetError: [Errno 104] x\n{END}", "key-missing"),
        (f"{KEY}step 3\n{TRACEBACK}OddError: x\n{END}{END.replace('0:', '1:')}", "key-missing"),
        (f"{KEY}Error in atexit._run_exitfuncs:\n{TRACEBACK}OddError: x\n{END}", "key-missing"),
        (f"Exception ignored in: <f>\n{TRACEBACK}OSError: x\n{STEPS}{END}", "unknown"),
        ("KeyError: skipped\nslurmstepd: error: couldn't chdir to `/w': No such\n", "job-folder"),
    ],
)
def test_a_log_without_records_ends_with_the_cause(tmp_path: Path, log: str, name: str) -> None:
    assert explained(tmp_path, log).name.startswith(name)


def test_another_ranks_last_exception_is_not_that_of_the_first(tmp_path: Path) -> None:
    ranks = ("[rank1]: ", f"{KEY}step 3\n"), ("[rank0]: ", f"{TRACEBACK}OddError: x\n")
    log = "".join(f"{label}{line}\n" for label, text in ranks for line in text.splitlines())
    assert explained(tmp_path, log + END).name == "key-missing"


def test_of_several_ranks_without_labels_the_first_exception_counts(tmp_path: Path) -> None:
    paths, job = made(tmp_path, f"{KEY}step 3\n{TRACEBACK}OddError: x\n{END}")
    log = facts(paths, job, FAILED, PATTERNS).log
    errors = [as_logged(None, log, several) for several in (True, False)]
    assert [first.record.error for first in errors if first and first.record] == [
        "KeyError: 'lr'",
        "OddError: x",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "2024-01-01 10:00:00.1: W tensorflow/core/framework/op_kernel.cc:1830] OP_REQUIRES failed "
        "at save_restore_v2_ops.cc:228 : NOT_FOUND: Key _GRAPH not found in checkpoint",
        "WARNING:absl:Skipping variable loading for optimizer 'Adam', because it has 1 variables "
        "whereas the saved optimizer has 13 variables.",
        "Optimizer loaded: has 148 variables, 148 variables restored",
        "step 3: Assertion `isfinite(loss)` failed, skipping batch",
        "checking driver: unsatisfied condition: driver>=525 (optional)",
    ],
)
def test_a_warning_is_not_the_cause_of_a_vague_error(tmp_path: Path, line: str) -> None:
    paths, job = made(tmp_path, f"0@n0 | {line}\n")
    error = type("InternalError", (RuntimeError,), {})("cublasLt failed")
    leave(paths, 0, 1.0, problems.of_exception(1, error, [f"InternalError: {error}"]))
    assert explain(paths, job, FAILED).name == "rank-exception"


def test_a_line_among_those_of_an_ignored_exception_is_kept() -> None:
    ignored = ["Exception ignored in: <f>", *TRACEBACK.splitlines(), "OSError: x"]
    assert not [*without_ignored(log_of(ignored).lines)]
    memory = "torch.OutOfMemoryError: CUDA out of memory"
    mixed = log_of([*ignored[:1], memory, *ignored[1:]])
    assert [line.text for line in without_ignored(mixed.lines)][:1] == [memory]
    labelled = log_of([*ignored[:2], f"[rank1]: {memory}", *ignored[2:]])
    assert [line.text for line in without_ignored(labelled.lines)] == [f"[rank1]: {memory}"]


def test_a_module_in_a_package_that_is_there_may_be_a_package_of_its_own(tmp_path: Path) -> None:
    error = "ModuleNotFoundError: No module named 'nvidia.dali'"
    assert "package of its own" in explained(tmp_path, "", (0, 1.0, error)).cause


def test_of_an_endless_line_only_the_begin_is_searched(tmp_path: Path) -> None:
    """Else expressions that take the square of its length would search for minutes."""
    error = "RuntimeError: " + "Assertion `input_val " * 4000
    paths, job = made(tmp_path, "", (0, 1.0, error))
    assert len(text_of(facts(paths, job, FAILED, ())).error) <= LONGEST_MESSAGE
