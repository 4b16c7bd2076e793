"""Paths that the nodes of a job cannot see."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from runners.core.model import SchedulerName
from runners.core.remedy import change
from runners.planning import solver
from runners.planning.case import Case

from .. import sentences
from .slurm_site import IMAGE, SITE, SPEC


@pytest.mark.parametrize(
    ("path", "kind", "seen"),
    [
        ("/tmp/ada/runs", "", False),
        ("/tmp/ada/runs", "nfs4", True),
        ("/home/ada/runs", "tmpfs", False),
        ("/home/ada/runs", "ext4", True),
        ("/tmpfiles/runs", "", True),
    ],
)
def test_folders_of_this_machine_alone(path: str, kind: str, seen: bool) -> None:
    spec, kinds = replace(SPEC, runs_dir=Path(path)), {Path(path): kind}
    site = replace(SITE, environment={"RUNNER_SCRATCH": "/tmp/own", "SCRATCH": "/scratch/ada"})
    refusals = solver.solve(Case(replace(spec, image=IMAGE), site, filesystems=kinds)).refusals
    assert sentences.ids(refusals) == ([] if seen else ["path-not-shared"])
    assert seen or refusals[0].remedies[0] == change(runs_dir="/scratch/ada/runs")
    alone = replace(spec, scheduler=SchedulerName.LOCAL)
    assert not solver.solve(Case(replace(alone, image=IMAGE), site, filesystems=kinds)).refusals
