"""The record of a run may be another user's: whatever it holds, it is read or refused."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from runners.core import job_record
from runners.core.errors import RunnerError, SystemFault
from runners.core.job_record import JobPaths

NAMES = ("id", "name", "scheduler", "log", "submitted", "elapsed", "varied", "typed", "form", "x")
GOOD = {"form": 2, "id": "7", "name": "x", "scheduler": "slurm", "log": "l", "submitted": 1.0}
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
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


@pytest.mark.parametrize("id", ["--me", "-u ada", "7 8", "", "7\n8", "$(id)"])
def test_a_number_that_is_an_option(tmp_path: Path, id: str) -> None:
    """`scancel --me` would end all jobs of whoever asks for an end of this one."""
    paths = JobPaths(tmp_path)
    paths.job.write_text(json.dumps({**GOOD, "id": id}))
    with pytest.raises(SystemFault, match="cannot read"):
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
        with pytest.raises(SystemFault, match="cannot read"):
            read(paths)
