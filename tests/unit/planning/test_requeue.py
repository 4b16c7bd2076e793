"""Interrupted jobs: what is asked for, what is refused, and what the script does under bash."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runners.core.job_record import JobPaths
from runners.core.model import ImageAccess, LauncherName, Resources, SchedulerName
from runners.core.plan import Plan
from runners.planning import solver
from runners.planning.case import Case
from runners.script import render

from .. import sentences
from ..plans import planned
from ..programs import program
from ..script.test_render import IMAGE, SITE, SPEC
from ..settings.test_request import spec as request_spec

NEW = replace(SITE, slurm_version="24.11.5")


def made(slurm: str = "24.11.5", **changes: Any) -> Plan:
    site = replace(SITE, slurm_version=slurm)
    return planned(SPEC, site, **{"requeue": True, **changes}, image=IMAGE)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("USR1", 60), ("B:USR1@90", 90), ("SIGUSR1@5", 5), ("b:usr1@0", 0), ("10@7", 7)],
)
def test_signals_in_sbatchs_form(text: str, seconds: int) -> None:
    assert request_spec(signal=text).signal == seconds


@pytest.mark.parametrize("text", ["TERM@60", "USR2", "USR1@", "R:USR1@60", "USR1@1m", "X:USR1"])
def test_signals_that_trainers_do_not_know(text: str) -> None:
    with sentences.raises("signal-malformed", "--signal USR1@120"):
        request_spec(signal=text)


def test_a_limit_without_requeue_is_a_mistake() -> None:
    with sentences.raises("requeue-limit-alone", "--requeue"):
        request_spec(requeue_limit=3)
    with sentences.raises("number-below-one"):
        request_spec(requeue=True, requeue_limit=0)


@pytest.mark.parametrize(("limit", "seconds"), [(None, 120), ("1:00:00", 120), ("2", 60)])
def test_the_warning_leaves_half_of_a_short_time_limit(limit: str | None, seconds: int) -> None:
    assert made(resources=Resources(time=limit)).interruption.signal == seconds


def test_a_requeued_job_goes_on_and_a_plain_one_does_not_begin_anew() -> None:
    text = render.render(made(requeue_limit=3), JobPaths(Path("/r")), "/w")
    assert '"${SLURM_RESTART_COUNT:-0}" -ge 3 ' in text
    assert "RESUME:-auto" in text
    for asked in (None, False):  # Slurm's own default is to requeue it when a node is lost
        plain = render.render(made(requeue=asked), JobPaths(Path("/r")), "/w")
        assert plain.count("requeue") == plain.count("#SBATCH --no-requeue\n") == 1
        assert "RESUME" not in plain


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"scheduler": SchedulerName.LOCAL}, ("not-with-scheduler", "--no-requeue")),
        ({"scheduler": SchedulerName.ALLOCATION}, ("not-with-scheduler", "--no-requeue")),
        ({"scheduler": SchedulerName.COBALT}, ("not-with-scheduler", "--no-requeue")),
        (
            {"scheduler": SchedulerName.PBS, "requeue": None, "signal": 60},
            ("not-with-scheduler", "leave out --signal"),
        ),
        (
            {"scheduler": SchedulerName.PBS, "requeue_limit": 2},
            ("not-with-scheduler", "leave out --requeue-limit"),
        ),
        ({"launcher": LauncherName.MPIRUN}, ("not-with-launcher", "leave out --launcher")),
        ({"launcher": LauncherName.HOROVODRUN}, ("not-with-launcher", "leave out --launcher")),
    ],
)
def test_what_nobody_would_do(changes: dict[str, Any], told: tuple[str, str]) -> None:
    assert told in [sentences.told(refusal) for refusal in made(**changes).refusals]


SIGNALLED = replace(SPEC, requeue=True, image=replace(IMAGE, size=9, offset=1))
LINUXPROC = replace(NEW, proctrack="proctrack/linuxproc")
BY_DEFAULT = frozenset({"stage-image"})


def test_where_signals_end_the_image_one_process_mounts_it_for_all_ranks_of_a_node() -> None:
    """A user who typed --stage-image none, or has no squashfuse for it, is told."""
    fuse = replace(LINUXPROC, fuse=True)
    plan = solver.solve(Case(SIGNALLED, fuse, unasked=BY_DEFAULT))
    assert plan.staging.image is ImageAccess.MOUNTED
    assert plan.warnings == ()
    plain = replace(SIGNALLED, requeue=None)
    plan = solver.solve(Case(plain, fuse, unasked=BY_DEFAULT))
    assert plan.staging.image is ImageAccess.IN_PLACE
    for case in (Case(SIGNALLED, fuse), Case(SIGNALLED, LINUXPROC, unasked=BY_DEFAULT)):
        plan = solver.solve(case)
        assert plan.staging.image is ImageAccess.IN_PLACE
        (warned,) = plan.warnings
        assert sentences.told(warned) == ("image-unmounted-by-signals", "--stage-image mount")
    for spec, site in (
        (replace(SIGNALLED, stage_image=ImageAccess.MOUNTED), LINUXPROC),
        (replace(SIGNALLED, stage_image=ImageAccess.UNPACKED), LINUXPROC),
        (replace(SIGNALLED, image=IMAGE), LINUXPROC),  # a folder
        (SIGNALLED, replace(NEW, proctrack="proctrack/cgroup")),
    ):
        assert planned(spec, site).warnings == ()


# Ranks that save when they are asked to, or when Slurm tells them itself (`ended`).
SRUN = """#!/bin/bash
trap 'echo {} > stopped.json; exit 0' USR1
echo > started
for i in {1..200}; do
  if [ -e ended ]; then sleep 0.5; kill -USR1 $$; fi
  sleep 0.1
done
exit 7
"""
SCONTROL = """#!/bin/bash
if [ "$1" = show ]; then cat job; else echo "$@" >> requeued; fi
"""


def interrupted(
    folder: Path, number: int, restarts: str = "", job: str = "", slurm: str = "24.11.5"
) -> int:
    """Run the script of a job with a budget of 2 restarts, and signal it; return its exit code."""
    for name, text in (("srun", SRUN), ("scontrol", SCONTROL)):
        program(folder / "bin" / name, text)
    (folder / "job").write_text(f"JobId=42 {job}\n")
    text = render.render(made(slurm, requeue_limit=2), JobPaths(folder), "/")
    environment = {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "SLURM_JOB_ID": "42"}
    # Names that the script uses too: what the user has exported must not matter.
    environment.update(ranks="1", warned="x", told_to_end="x")
    environment.update({"SLURM_RESTART_COUNT": restarts} if restarts else {})
    process = subprocess.Popen(["bash", "-c", text], env=environment, cwd=folder)
    deadline = time.monotonic() + 20
    while not (folder / "started").exists() and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    if process.poll() is None:
        process.send_signal(number)
    if number == signal.SIGTERM:
        (folder / "ended").touch()
    return process.wait(timeout=20)


def recorded(folder: Path) -> int | None:
    path = folder / "exit.json"
    return json.loads(path.read_text())["exit_code"] if path.exists() else None


def test_a_job_that_slurm_ends_is_not_brought_back(tmp_path: Path) -> None:
    """SIGTERM: cancelled, or too late. The ranks get it from Slurm, and their end is awaited."""
    assert interrupted(tmp_path, signal.SIGTERM) == 91
    assert not (tmp_path / "requeued").exists()
    assert recorded(tmp_path) == 91


@pytest.mark.parametrize(("slurm", "asked"), [("24.11.5", False), ("22.05.8", True), ("", True)])
def test_a_preempted_job_is_brought_back_once(tmp_path: Path, slurm: str, asked: bool) -> None:
    job = "PreemptEligibleTime=2026-11-21T17:00:00 PreemptTime=2026-11-21T17:01:00"
    assert interrupted(tmp_path, signal.SIGUSR1, job=job, slurm=slurm) == 91
    assert (tmp_path / "requeued").exists() is asked
    assert recorded(tmp_path) is None


def test_a_job_that_was_not_preempted_shows_no_time_of_it(tmp_path: Path) -> None:
    interrupted(tmp_path, signal.SIGUSR1, job="PreemptEligibleTime=2026 PreemptTime=None")
    assert (tmp_path / "requeued").exists()


def test_a_start_after_a_good_end_is_none(tmp_path: Path) -> None:
    (tmp_path / "exit.json").write_text('{"exit_code": 0, "time": 1}\n')
    (tmp_path / "result.json").write_text("{}")
    assert interrupted(tmp_path, signal.SIGUSR1, restarts="2") == 0
    assert not (tmp_path / "started").exists()
    assert (tmp_path / "result.json").exists()
