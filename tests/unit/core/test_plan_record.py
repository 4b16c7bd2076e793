"""plan.json: what is written of a plan is read again as the same decisions."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runners.contract.enums import Controller
from runners.core import plan_record
from runners.core.command_line import Given
from runners.core.job_record import JobPaths
from runners.core.model import (
    BindMount,
    DataAccess,
    DataPlane,
    GpuVendor,
    ImageAccess,
    ImageInfo,
    JobSpec,
    LauncherName,
    Resources,
    RuntimeName,
    SchedulerName,
)
from runners.core.plan import (
    Choice,
    ChoiceId,
    Cpus,
    Gpus,
    Interruption,
    Launching,
    Network,
    Plan,
    Staging,
    Wireup,
)
from runners.core.plan_record import PlanRecord
from runners.core.trainer import Trainer, Tuning

from .. import sentences

SPEC = JobSpec(
    "t",
    ImageInfo(Path("a.sif")),
    Trainer("t", None, Path("/w/t.py"), ("--lr", "1")),
    Resources(),
    Path("runs"),
    tuning=Tuning("t.json"),
    binds=(BindMount("/a", "/a"), BindMount("/b", "/data"), BindMount("/c", "/c", True)),
    env=(("TOKEN", "secret"),),
    sbatch_args=("--hold",),
)
PLAN = Plan(
    SPEC,
    Resources(),
    Launching(SchedulerName.SLURM, RuntimeName.APPTAINER, LauncherName.SRUN),
    Wireup(Controller.GLOO, "none"),
    Gpus(GpuVendor.NVIDIA, driver="525.60.13", data_plane=DataPlane.NCCL),
    Cpus("cores", "v3"),
    Network(("eth0", "ib0")),
    Staging(data=DataAccess.COPIED, image=ImageAccess.MOUNTED, image_offset=4096, root="/local"),
    Interruption(True, signal=60, requeue_limit=3, slurm_restarts_preempted=True),
    choices=(Choice(ChoiceId.NETWORK_INTERFACES, "loopback", "all ranks are on one node"),),
)


@pytest.fixture
def paths(tmp_path: Path) -> JobPaths:
    return JobPaths(tmp_path)


def test_decisions_are_read_as_they_were_written(paths: JobPaths) -> None:
    plan_record.write(paths, PLAN)
    names = plan_record.DECISIONS
    assert plan_record.read(paths) == PlanRecord(
        command=("/w/t.py", "--lr", "1"),
        image="a.sif",
        binds=("/a", "/b:/data", "/c:/c:ro"),
        env=("TOKEN",),
        sbatch_args=("--hold",),
        timeline="t.json",
        **{name: getattr(PLAN, name) for name in names},
    )
    assert json.loads(paths.plan.read_text())["staging"]["image"] == "mount"
    assert "secret" not in paths.plan.read_text(), "of --env the names alone"


def test_what_an_older_runner_did_not_write_is_otherwise_known(paths: JobPaths) -> None:
    otherwise = PlanRecord(env=("A",), binds=("/x",))
    assert plan_record.read(paths, otherwise) == otherwise, "there is no file yet"
    old = {**plan_record.as_data(PLAN), "binds": []}
    del old["env"]
    paths.plan.write_text(json.dumps(old))
    read = plan_record.read(paths, otherwise)
    assert (read.env, read.binds, read.command) == (("A",), (), ("/w/t.py", "--lr", "1"))


@pytest.mark.parametrize(("given", "name"), [("torch", "torch"), (None, "a.sif")])
def test_the_image_is_called_as_it_was_given(given: str | None, name: str) -> None:
    spec = replace(SPEC, settings=(Given("image", given),) if given else ())
    assert plan_record.as_data(replace(PLAN, spec=spec))["image"] == name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("staging", {"image": "elsewhere"}),
        ("staging", {"image_offset": "4096"}),
        ("staging", {"unknown": 1}),
        ("interruption", {"requeue_limit": None}),
        ("network", {"interfaces": "eth0"}),
        ("wireup", None),
        ("data", "digits"),
        ("command", "t.py"),
        ("binds", [1]),
        ("env", "A"),
    ],
)
def test_a_file_that_no_plan_writes_is_refused(paths: JobPaths, name: str, value: object) -> None:
    paths.plan.write_text(json.dumps({**plan_record.as_data(PLAN), name: value}))
    with sentences.raises("plan-unreadable"):
        plan_record.read(paths)


@pytest.mark.parametrize("written", [{"version": plan_record.VERSION + 1}, [{"what": "runtime"}]])
def test_another_form_is_named(paths: JobPaths, written: object) -> None:
    assert plan_record.read(paths) == plan_record.PlanRecord(), "there is no file yet"
    paths.plan.write_text(json.dumps(written))
    with sentences.raises("plan-of-other-version"):
        plan_record.read(paths)


def _of_form_4(vendor: GpuVendor | None) -> dict[str, Any]:
    old = plan_record.as_data(PLAN)
    del old["gpus"]["vendor"]
    old["gpus"].update(nv=vendor is GpuVendor.NVIDIA, rocm=vendor is GpuVendor.AMD)
    return {**old, "version": 4}


@pytest.mark.parametrize("vendor", [None, *GpuVendor])
def test_a_record_of_form_4_is_read(paths: JobPaths, vendor: GpuVendor | None) -> None:
    paths.plan.write_text(json.dumps(_of_form_4(vendor)))
    assert plan_record.read(paths).gpus == replace(PLAN.gpus, vendor=vendor)


def test_a_record_of_form_3_is_read(paths: JobPaths) -> None:
    old = {**_of_form_4(GpuVendor.NVIDIA), "version": 3}
    for now, before in (("signal", "warning"), ("requeue_limit", "restart_limit")):
        old["interruption"][before] = old["interruption"].pop(now)
    old["cpus"]["per_task"] = 4
    paths.plan.write_text(json.dumps(old))
    record = plan_record.read(paths)
    assert (record.interruption, record.cpus) == (PLAN.interruption, PLAN.cpus)
    assert record.gpus == PLAN.gpus
