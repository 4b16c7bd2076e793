"""PBS, Cobalt and an allocation: what is asked, and what the answers mean."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from runners.core.diagnosis import Diagnosis
from runners.core.job_record import Job, JobPaths, JobState, Status
from runners.core.model import Resources, RuntimeName, SchedulerName
from runners.core.shell import Result
from runners.core.site import Site
from runners.jobs import job_status
from runners.jobs.job_status import status
from runners.schedulers import SCHEDULERS, cobalt, pbs, qsub
from runners.schedulers.base import clock, limit_seconds

from .. import scripts, sentences
from ..plans import planned
from ..programs import program

PBS, COBALT = pbs.SCHEDULER, cobalt.SCHEDULER
POLARIS = scripts.jobs()["polaris"]


def refused(module: SchedulerName, **asked: object) -> tuple[Diagnosis, ...]:
    spec = replace(POLARIS.spec, resources=Resources(time="10", **asked))  # type: ignore[arg-type]
    found: tuple[Diagnosis, ...] = SCHEDULERS[module].refusals(spec, spec.resources)
    return found


def told(scheduler: SchedulerName, **asked: object) -> tuple[str, ...]:
    """The id and the remedies of the only refusal."""
    (only,) = refused(scheduler, **asked)
    return sentences.told(only)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 1800),
        ("30:15", 1815),
        ("1:30:00", 5400),
        ("2-12", 216000),
        ("2-12:30", 217800),
        ("2-12:30:05", 217805),
        ("UNLIMITED", None),
        ("two-12", None),
    ],
)
def test_slurms_times(text: str, seconds: int | None) -> None:
    assert limit_seconds(text) == seconds


def test_clock() -> None:
    assert clock(217805) == "60:30:05"


@pytest.mark.parametrize("scheduler", [SchedulerName.PBS, SchedulerName.COBALT])
@pytest.mark.parametrize(
    "asked",
    [
        {"qos": "high"},
        {"comment": "pytorch"},
        {"nodelist": "n1"},
        {"exclude": "n1"},
        {"reservation": "r"},
        {"gpus": "4"},
        {"gpus_per_task": "1"},
        {"overcommit": True},
        {"distribution": "cyclic"},
    ],
)
def test_what_a_scheduler_lacks_is_refused_by_name(
    scheduler: SchedulerName, asked: dict[str, object]
) -> None:
    option = "--" + next(iter(asked)).replace("_", "-")
    id, remedy = told(scheduler, **asked)
    assert id == "option-not-of-scheduler"
    assert remedy.endswith(f"leave out {option}")


def test_a_constraint_of_pbs_is_an_attribute_of_nodes() -> None:
    assert refused(SchedulerName.PBS, constraint="system=polaris:host=x1") == ()
    without = "leave out --constraint"
    of_pbs = told(SchedulerName.PBS, constraint="gpu")
    assert of_pbs == ("constraint-not-of-scheduler", without)
    of_cobalt = told(SchedulerName.COBALT, constraint="gpu")
    assert of_cobalt == ("option-not-of-scheduler", without)


@pytest.mark.parametrize(
    ("scheduler", "asked", "remedy"),
    [
        (SchedulerName.PBS, {"qos": "debug"}, "--partition debug, leave out --qos"),
        (SchedulerName.PBS, {"nodes": 2, "gpus": "8"}, "--gpus-per-node 4, leave out --gpus"),
        (SchedulerName.COBALT, {"gpus": "A100:2"}, "--gpus-per-node 2, leave out --gpus"),
        (
            SchedulerName.PBS,
            {"ntasks_per_node": 4, "gpus_per_task": "1"},
            "--gpus-per-node 4, leave out --gpus-per-task",
        ),
        (SchedulerName.PBS, {"gres": "gpu:A100:4"}, "--gpus-per-node 4, leave out --gres"),
    ],
)
def test_remedies_are_options(
    scheduler: SchedulerName, asked: dict[str, object], remedy: str
) -> None:
    assert told(scheduler, **asked)[1:] == (remedy,)


def test_more_that_pbs_cannot_read() -> None:
    of_a_type = told(SchedulerName.PBS, gpus_per_node="A100:4")
    assert of_a_type == ("gpus-not-of-scheduler", "--gpus-per-node 4")
    assert told(SchedulerName.PBS, mem="much") == ("mem-not-of-scheduler", "leave out --mem")
    endless = replace(POLARIS.spec, resources=Resources(time="UNLIMITED"))
    assert len(PBS.refusals(endless, endless.resources)) == 1
    assert sentences.ids(PBS.refusals(endless, Resources())) == ["time-missing"]


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (Resources(nodes=2, exclusive=True), "2"),
        (Resources(nodes=2, ntasks_per_node=4, cpus_per_task=8), "2:ncpus=32:mpiprocs=4"),
        (Resources(ntasks=2, gres="gpu:2", mem="16G"), "1:ncpus=2:mpiprocs=2:ngpus=2:mem=16gb"),
        (Resources(constraint="a=b", mem="512"), "1:a=b:ncpus=1:mpiprocs=1:mem=512mb"),
    ],
)
def test_chunks_of_pbs(asked: Resources, text: str) -> None:
    assert pbs.select(asked) == text


@pytest.mark.parametrize("name", ["a b", "it's", "$(id)", "x;y", "é☃", "-x", "1,2:3", "new\nline"])
def test_names_that_pbs_takes(name: str) -> None:
    plain = qsub.job_name(name)
    assert plain.isascii()
    assert plain[0].isalnum()
    assert not set(plain) & set(" \n'$();:,")


def test_qsub_answers() -> None:
    assert PBS.parse_submit(Result(0, "INFO: a hook\n123.pbs-01\n", "")) == "123.pbs-01"
    assert COBALT.parse_submit(Result(0, 'Job routed to queue "full-node".\n456\n', "")) == "456"
    with sentences.raises("job-refused") as told:
        PBS.parse_submit(Result(1, "", "qsub: Unknown queue"))
    assert told.value.evidence == "qsub: Unknown queue"
    with sentences.raises("job-refused"):
        COBALT.parse_submit(Result(0, "not a number", ""))


def qstat(**job: object) -> Result:
    return Result(0, json.dumps({"timestamp": 1, "Jobs": {"123.pbs-01": job}}), "")


@pytest.mark.parametrize(
    ("job", "state"),
    [
        ({"job_state": "Q", "comment": "Not Running: no nodes"}, JobState.PENDING),
        ({"job_state": "H"}, JobState.PENDING),
        ({"job_state": "R"}, JobState.RUNNING),
        ({"job_state": "E"}, JobState.RUNNING),
        ({"job_state": "?"}, JobState.UNKNOWN),
        ({"job_state": "F", "Exit_status": 0}, JobState.COMPLETED),
        ({"job_state": "F", "Exit_status": 3}, JobState.FAILED),
        ({"job_state": "F", "Exit_status": 271}, JobState.FAILED),
        ({"job_state": "F", "Exit_status": 271, "substate": 91}, JobState.CANCELLED),
        ({"job_state": "F"}, JobState.CANCELLED),
        ({"job_state": "F", "Exit_status": -29}, JobState.TIMEOUT),
        ({"job_state": "F", "Exit_status": -27}, JobState.OUT_OF_MEMORY),
        ({"job_state": "F", "Exit_status": -3}, JobState.NODE_FAIL),
    ],
)
def test_states_of_pbs(job: dict[str, object], state: JobState) -> None:
    assert PBS.parse_states(qstat(**job))["123"][0] == state


def test_reasons_of_pbs() -> None:
    waits = PBS.parse_states(qstat(job_state="Q", comment="Not Running: no nodes"))
    assert waits["123"][1] == "Not Running: no nodes"
    assert pbs.ended(271)[1] == "ended by signal 15"


def test_answers_of_pbs_that_are_none() -> None:
    assert PBS.parse_states(Result(153, "", "qstat: Unknown Job Id 9.pbs-01")) == {}
    for text in ("", "{", "[]", '{"x": 1}', "Connection refused"):
        with sentences.raises("pbs-answer", "qstat -x -f -F json"):
            PBS.parse_states(Result(1, text, "pbs_connect: refused"))


QSTAT = """\
JobID   State
=====================
77734   running
77735   dep_hold
77736   new_state
"""


def test_states_of_cobalt() -> None:
    assert COBALT.parse_states(Result(0, QSTAT, "")) == {
        "77734": Status(JobState.RUNNING),
        "77735": Status(JobState.PENDING),
        "77736": Status(JobState.UNKNOWN),
    }
    assert COBALT.parse_states(Result(1, "", "")) == {}
    with sentences.raises("cobalt-answer", "qstat"):
        COBALT.parse_states(Result(1, "", "Failed to connect to queue manager"))


def test_cobalt_is_told_from_pbs_although_both_have_a_qsub() -> None:
    here = Site((SchedulerName.PBS, SchedulerName.COBALT), runtime=RuntimeName.SINGULARITY)
    made = planned(POLARIS.spec, here, host_mpi=False)
    assert made.launching.scheduler == "cobalt"


def test_commands() -> None:
    assert PBS.states_argv(["1.s"]) == ["qstat", "-x", "-f", "-F", "json", "1.s"]
    assert COBALT.states_argv(["1"]) == ["qstat", "--header", "JobID:State", "1"]
    assert PBS.by_hand(JobPaths(Path("/a b"))) == "qsub '/a b/job.sbatch'"


@pytest.mark.parametrize("scheduler", [SchedulerName.PBS, SchedulerName.COBALT])
def test_watch_asks_every_scheduler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheduler: SchedulerName
) -> None:
    """Submit, look and cancel with stand-ins that write down how they were called."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    paths = JobPaths(tmp_path / "run 1")
    paths.root.mkdir()
    paths.script.write_text("#!/bin/bash\n")
    answers = {"pbs": json.dumps({"Jobs": {"7.s": {"job_state": "R"}}}), "cobalt": "7 running"}
    id = {"pbs": "7.s", "cobalt": "7"}[scheduler]
    program(tmp_path / "qsub", f'printf "%s\\n" "$@" > {tmp_path}/qsub.args; echo {id}')
    program(tmp_path / "qstat", f"echo '{answers[scheduler]}'")
    program(tmp_path / "qdel", f'printf "%s\\n" "$@" > {tmp_path}/qdel.args')
    module = SCHEDULERS[scheduler]
    assert module.submit(paths, tmp_path / "log") == id
    assert (tmp_path / "qsub.args").read_text() == f"{paths.script}\n"
    job = Job(id, "name", scheduler, str(tmp_path / "log"), 1.0)
    assert status(paths, job).state == JobState.RUNNING
    module.cancel(id)
    assert (tmp_path / "qdel.args").read_text() == f"{id}\n"


def test_an_answer_that_is_not_understood_is_waited_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(job_status, "SECONDS_BETWEEN_QUESTIONS", 0)
    answers = [
        json.dumps({"Jobs": {"7.s": {"job_state": "R"}}}),
        "Segmentation fault",
        json.dumps({"Jobs": {"7.s": {"job_state": "F", "Exit_status": 0}}}),
    ]
    for number, text in enumerate(answers):
        (tmp_path / f"answer{number}").write_text(text)
    count = f"n=$(cat {tmp_path}/n 2>/dev/null || echo 0); echo $((n + 1)) > {tmp_path}/n"
    program(tmp_path / "qstat", f"{count}; cat {tmp_path}/answer$n")
    paths = JobPaths(tmp_path / "run")
    paths.root.mkdir()
    job = Job("7.s", "name", SchedulerName.PBS, str(tmp_path / "log"), 1.0)
    seen = [now for (now,) in job_status.until_end([(paths, job)])]
    assert [now.state.name for now in seen] == ["RUNNING", "RUNNING", "COMPLETED"]
    assert seen[1].reason == "PBS's answer was not understood; still waiting"
