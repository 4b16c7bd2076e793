"""A step that does not end though a rank has failed: a node's slurmstepd was killed, say."""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runners.core.job_record import JobPaths
from runners.core.model import LauncherName
from runners.core.plan import Plan
from runners.core.site import Profile
from runners.script import render

from ..plans import planned
from ..programs import program
from .test_render import IMAGE, SITE, SPEC

LONG_AGO = "@1700000000"
# A rank has failed; `writes` says that another one saves.
SRUN = """#!/bin/bash
case "$*" in *" tidy") exit ;; esac
mkdir -p failures; echo {{}} > failures/rank-1.json; echo > starts.jsonl
find . -type f -exec touch -d {written} {{}} +
for i in {{1..{tenths}}}; do
  {writes}
  sleep 0.1
done
exit {code}
"""


def warned(seconds: int = 1, **changes: Any) -> Plan:
    profile = Profile("here", step_end_seconds=seconds)
    return planned(SPEC, replace(SITE, profile=profile), **changes, image=IMAGE)


def ended(
    folder: Path,
    plan: Plan,
    writes: str,
    tenths: int,
    code: int = 7,
    written: str = LONG_AGO,
) -> tuple[int, str]:
    """Run the job's script; return its exit code and what it printed."""
    text = SRUN.format(written=written, writes=writes, tenths=tenths, code=code)
    program(folder / "bin" / "srun", text)
    done = subprocess.run(
        ["bash", "-c", render.render(plan, JobPaths(folder), "/")],
        env={"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"},
        cwd=folder, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("signal", [None, 60])
def test_it_is_ended_and_the_failure_stays_on_record(tmp_path: Path, signal: int | None) -> None:
    began = time.monotonic()
    code, out = ended(tmp_path, warned(signal=signal), "", 400)
    assert time.monotonic() - began < 30
    assert code != 0
    assert "its step does not end" in out
    assert json.loads((tmp_path / "exit.json").read_text())["exit_code"] == code
    assert (tmp_path / "failures/rank-1.json").exists()


def test_it_is_left_alone_while_anything_is_written(tmp_path: Path) -> None:
    """A checkpoint, say."""
    code, out = ended(tmp_path, warned(), "echo >> checkpoint", 40)
    assert (code, out) == (7, "")


def test_a_step_that_ends_by_itself_leaves_no_word(tmp_path: Path) -> None:
    assert ended(tmp_path, warned(300), "", 1, code=0, written="now") == (0, "")


@pytest.mark.parametrize(
    "changes",
    [
        {"launcher": LauncherName.TORCHRUN},
        {"srun_args": ("--kill-on-bad-exit=0",)},
        {"seconds": 0},
    ],
)
def test_nor_is_it_where_ranks_may_go_on(changes: dict[str, Any]) -> None:
    text = render.render(warned(**changes), JobPaths(Path("/r")), "/")
    assert "stuck" not in text
