"""The record of a run may be another user's: whatever it holds, it is read or refused."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from runners.cli.runs import status
from runners.core import files, job_record
from runners.core.errors import RunnerError, SystemFault
from runners.core.job_record import Job, JobPaths
from runners.core.model import SchedulerName
from runners.core.text import span
from runners.jobs import script_starts
from runners.monitoring import resource_use

from .. import sentences

NAMES = ("id", "name", "scheduler", "log", "submitted", "elapsed", "varied", "typed", "form", "x")
GOOD = {"form": 2, "id": "7", "name": "x", "scheduler": "slurm", "log": "l", "submitted": 1.0}
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=5,
)
in_a_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@in_a_folder
@given(st.binary(max_size=64) | st.dictionaries(st.sampled_from(NAMES), values))
@example(b"[" * 100_000)
@example({"form": "2"})
@example({"form": 2.0})
@example({"typed": {"settings": 1}})
@example({"typed": [1]})
def test_a_record(tmp_path: Path, content: bytes | dict[str, object]) -> None:
    paths = JobPaths(tmp_path)
    whole = content if isinstance(content, bytes) else json.dumps({**GOOD, **content}).encode()
    paths.job.write_bytes(whole)
    try:
        job = job_record.load(paths)
    except RunnerError:
        return
    assert not job.id.startswith("-")
    assert all(isinstance(text, str) for text in (job.id, job.name, job.scheduler, job.log))
    assert isinstance(job.submitted, (int, float))


USE = {
    "version": 2,
    "findings": [],
    "nodes": [
        {
            "host": "n1",
            "ranks": 1,
            "seconds": 100.0,
            "cpus": 16,
            "cpu_seconds": 95.0,
            "memory_peak_bytes": 1e10,
            "memory_limit_bytes": 10**10,
            "gpus": {"GPU-1": {"use_mean": 0.01, "memory_peak_bytes": 1}},
            "of_ranks": [
                {"rank": 0, "workers": 1, "cpus": 16, "cpu_seconds": 95.0, "memory_peak_bytes": 1.0}
            ],
        }
    ],
}


@in_a_folder
@given(st.sampled_from(sorted(USE["nodes"][0])), values)  # type: ignore[index]
@example("host", "\x1b[2J")
@example("cpus", float("inf"))
@example("of_ranks", [{"rank": 0, "workers": 0, "cpus": 4, "cpu_seconds": 1, "x": 1}])
@example("gpus", {"a": 1})
def test_a_record_of_use(tmp_path: Path, name: str, value: object) -> None:
    paths = JobPaths(tmp_path)
    node = {**USE["nodes"][0], name: value}  # type: ignore[index]
    paths.use.write_text(json.dumps({**USE, "nodes": [node]}))
    try:
        used = resource_use.of_run(paths)
        assert used is not None
        list(status.use_lines(used, Job("7", "x", SchedulerName.SLURM, "l", 1.0)))
        shown = status.use_table(used)
    except SystemFault:
        return
    assert all(cell.isprintable() for row in shown[0] for cell in row)


STARTS = ("began", "ended", "step", "time", "x")


@in_a_folder
@given(st.lists(st.dictionaries(st.sampled_from(STARTS), values, max_size=3), max_size=3))
@example([{"began": float("nan")}, {"began": 1}])
@example([{"began": 10**400}])
@example([{"began": []}])
def test_a_record_of_starts(tmp_path: Path, lines: list[dict[str, object]]) -> None:
    paths = JobPaths(tmp_path)
    for path in (paths.starts, paths.metrics):
        path.write_text("".join(json.dumps(record) + "\n" for record in lines))
    with contextlib.suppress(*files.DAMAGED):
        for start in script_starts.of_run(paths):
            assert span(start.ended - start.began)


@pytest.mark.parametrize("name", ["", "lsf", "../slurm", "base"])
def test_a_scheduler_that_is_none(tmp_path: Path, name: str) -> None:
    paths = JobPaths(tmp_path)
    Job("7", "x", SchedulerName.SLURM, "l", 1.0).save(paths)
    record = json.loads(paths.job.read_text())
    assert record["scheduler"] == "slurm"
    paths.job.write_text(json.dumps({**record, "scheduler": name}))
    with sentences.raises("job-record-unreadable"):
        job_record.load(paths)


@pytest.mark.parametrize("id", ["--me", "-u ada", "7 8", "", "7\n8", "$(id)"])
def test_a_number_that_is_an_option(tmp_path: Path, id: str) -> None:
    """`scancel --me` would end all jobs of whoever asks for an end of this one."""
    paths = JobPaths(tmp_path)
    paths.job.write_text(json.dumps({**GOOD, "id": id}))
    with sentences.raises("job-record-unreadable"):
        job_record.load(paths)


@pytest.mark.parametrize("id", ["7", "7_4", "7+1", "7[4].server-1.example", "local-12-345_0"])
def test_a_number_of_each_scheduler(tmp_path: Path, id: str) -> None:
    paths = JobPaths(tmp_path)
    paths.job.write_text(json.dumps({**GOOD, "id": id}))
    assert job_record.load(paths).id == id


def test_a_record_that_is_a_pipe_or_a_device(tmp_path: Path) -> None:
    """To open the one would wait for ever, to read the other would not end."""
    paths = JobPaths(tmp_path)
    os.mkfifo(paths.job)
    paths.exit.symlink_to("/dev/zero")
    for read in (job_record.load, job_record.exit_code):
        with sentences.raises("json-unreadable"):
            read(paths)
