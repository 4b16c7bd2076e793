"""Records of failed ranks, as the shim writes them."""

from __future__ import annotations

import json
from typing import Any

from runners.contract import failure_kinds as kinds
from runners.core.job_record import JobPaths
from runners.injob import problems
from runners.injob.problems import Problem


def leave(
    paths: JobPaths, rank: int, time: float, problem: Problem, code: int = 1, **more: Any
) -> None:
    """Leave a rank's record in a run's folder."""
    paths.failures.mkdir(parents=True, exist_ok=True)
    record = {"version": kinds.VERSION, "kind": problem.kind, "rank": rank, "host": f"n{rank}"}
    record.update(time=time, exit_code=code, message=problem.text, **problem.fields)
    (paths.failures / f"rank-{rank}.json").write_text(json.dumps({**record, **more}))


def words(error: str, code: int = 1) -> Problem:
    """Return the end of a program that said why: an exception's last line, or words of its own."""
    return problems.of_exit(code, error)
