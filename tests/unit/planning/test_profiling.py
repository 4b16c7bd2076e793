"""--profile-with in the plan: its mounts and words, and what cannot be profiled."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runners.contract.enums import Controller
from runners.core.job_record import JobPaths
from runners.core.model import (
    BindMount,
    ImageInfo,
    JobSpec,
    LauncherName,
    Resources,
    RuntimeName,
    SchedulerName,
)
from runners.core.plan import Plan
from runners.core.site import Site
from runners.core.trainer import Profiling, Trainer
from runners.script import render

from .. import sentences
from ..plans import planned

NSYS = Profiling(
    "nsys profile -o {output}", "0", "/opt/nsight/1/bin/nsys", ("/opt/nsight/1", "/usr/bin")
)
TRAINER = Trainer("t", None, Path("/home/ada/t.py"))
IMAGE = ImageInfo(Path("/i/a.sif"))
SPEC = JobSpec("job", IMAGE, TRAINER, Resources(nodes=2), Path("/runs"), controller=Controller.NONE)
SLURM = Site((SchedulerName.SLURM,), ("none", "pmix"), RuntimeName.APPTAINER)


def solved(**changes: Any) -> Plan:
    return planned(SPEC, SLURM, profiling=NSYS, **changes)


def test_the_tools_folder_is_mounted_and_system_folders_are_not() -> None:
    plan = solved()
    assert not plan.refusals
    assert BindMount("/opt/nsight/1", "/opt/nsight/1", read_only=True) in plan.binds
    assert "/usr/bin" not in [bind.source for bind in plan.binds]


def test_its_words_reach_the_shim_as_they_were_typed() -> None:
    command = "tool '$(touch y)' \"a b\" -o {output}"
    plan = solved()
    asked = replace(NSYS, command=command, ranks="0,1")
    plan = replace(plan, spec=replace(plan.spec, profiling=asked))
    text = render.render(plan, JobPaths(Path("/runs/job-1")), "/home/ada")
    words = shlex.split(text.rpartition("ranks_run=yes")[2])
    place = words.index("--profile-with")
    options = ["--profile-with", command, "--profile-ranks", "0,1", "--profile-tool", NSYS.tool]
    assert words[place : place + 6] == options


@pytest.mark.parametrize(
    ("changes", "id", "remedy"),
    [
        ({"launcher": LauncherName.TORCHRUN}, "profiler-with-launcher", "leave out --launcher"),
        ({"profiling": replace(NSYS, ranks="0,2-9")}, "profile-ranks", "--profile-ranks all"),
        (
            {"profiling": replace(NSYS, tool=""), "runtime": RuntimeName.NONE},
            "profiler-missing",
            "--module NAME",
        ),
    ],
)
def test_what_cannot_be_profiled_is_refused(changes: dict[str, Any], id: str, remedy: str) -> None:
    made = planned(SPEC, SLURM, **{"profiling": NSYS, **changes})
    (refusal,) = [refusal for refusal in made.refusals if refusal.id == id]
    assert remedy in " ".join(sentences.told(refusal))


def test_a_module_may_bring_the_tool() -> None:
    made = solved(runtime=RuntimeName.NONE, modules=("nsight",))
    assert "profiler-missing" not in [refusal.id for refusal in made.refusals]
