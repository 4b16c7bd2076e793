"""horovodrun's options as a launch's: read, checked, and turned into Horovod's variables."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from runners.contract.enums import Controller
from runners.core import quoting
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
from runners.core.quoting import Expanded
from runners.core.site import Site
from runners.core.trainer import Trainer, Tuning
from runners.script.environment import exports
from runners.settings import config, tuning

from .. import sentences
from ..plans import planned
from ..scripts import OURS

SPEC = JobSpec(
    "t", ImageInfo(Path("/i/a.sif")), Trainer("t", None, Path("/t/t.py")), Resources(), Path("/r")
)
SLURM = Site((SchedulerName.SLURM,), ("none", "pmix"), RuntimeName.APPTAINER)


def tuned(asked: Tuning, site: Site = SLURM, **spec: object) -> Plan:
    return planned(SPEC, site, tuning=asked, image=ImageInfo(Path("/i/a.sif"), OURS), **spec)


def horovod(made: Plan) -> dict[str, str]:
    return {v.name: quoting.path(v.value) for v in made.variables if v.name.startswith("HOROVOD_")}


def test_options_become_horovods_variables() -> None:
    asked = Tuning("trace.json", True, 64, 2.5, 90)
    assert horovod(tuned(asked, controller=Controller.GLOO)) == {
        "HOROVOD_TIMELINE": "$run/trace.json",
        "HOROVOD_AUTOTUNE": "1",
        "HOROVOD_AUTOTUNE_LOG": "$run/autotune.csv",
        "HOROVOD_FUSION_THRESHOLD": str(64 * 1024 * 1024),
        "HOROVOD_CYCLE_TIME": "2.5",
        "HOROVOD_GLOO_TIMEOUT_SECONDS": "90",
    }


def test_each_is_told_with_its_reason() -> None:
    made = tuned(Tuning(cycle_time_ms=0.5))
    assert ("cycle-time-ms", 0.5, "as requested") in [
        (c.id, c.value, c.reason) for c in made.choices
    ]


def test_what_the_user_has_exported_is_kept_and_told() -> None:
    site = replace(SLURM, environment={"HOROVOD_CYCLE_TIME": "7"})
    made = tuned(Tuning(cycle_time_ms=0.5), site)
    assert "variable-kept" in sentences.ids(made.warnings)
    line = dict(exports(made, "/r/t-1"))["HOROVOD_CYCLE_TIME"]
    assert bash(f"HOROVOD_CYCLE_TIME=7; echo {line}") == "7"
    assert bash(f"echo {line}") == "0.5"


def test_a_timeline_lies_in_the_runs_folder_however_that_is_called() -> None:
    line = dict(exports(tuned(Tuning("t.json")), "/r"))["HOROVOD_TIMELINE"]
    assert bash(f"run='/a b/$(c)'; echo {line}") == "/a b/$(c)/t.json"


def bash(command: str) -> str:
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_timeline_elsewhere_is_bound(tmp_path: Path) -> None:
    made = tuned(Tuning(f"{tmp_path}/t.json"))
    assert BindMount(str(tmp_path), str(tmp_path)) in made.binds
    assert horovod(made)["HOROVOD_TIMELINE"] == f"{tmp_path}/t.json"
    assert not isinstance(horovod(made)["HOROVOD_TIMELINE"], Expanded)


def test_a_start_timeout_reaches_who_waits() -> None:
    asked = Tuning(start_timeout=90)
    warnings = tuned(asked, controller=Controller.MPI).warnings
    assert "start-timeout-unused" in sentences.ids(warnings)
    made = tuned(asked, launcher=LauncherName.HOROVODRUN, controller=Controller.MPI)
    assert horovod(made) == {"HOROVOD_START_TIMEOUT": "90"}
    assert "start-timeout-unused" not in sentences.ids(made.warnings)


@pytest.mark.parametrize(
    ("name", "value", "id"),
    [
        ("cycle-time-ms", -1, "tuning-out-of-range"),
        ("cycle-time-ms", float("nan"), "tuning-out-of-range"),
        ("cycle-time-ms", 2000, "tuning-out-of-range"),
        ("fusion-threshold-mb", -1, "tuning-out-of-range"),
        ("fusion-threshold-mb", 5000, "tuning-out-of-range"),
        ("start-timeout", 0, "tuning-out-of-range"),
        ("timeline-filename", "some/where.json", "timeline-malformed"),
        ("timeline-filename", "", "timeline-malformed"),
        ("timeline-filename", "..", "timeline-malformed"),
        ("timeline-filename", "$(date).json", "timeline-malformed"),
    ],
)
def test_what_cannot_be_is_refused(name: str, value: object, id: str) -> None:
    with sentences.raises(id):
        tuning.read({name: value}.get)


def test_a_timeline_in_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with sentences.raises("timeline-folder-missing"):
        tuning.read({"timeline-filename": str(tmp_path / "no" / "t.json")}.get)


def test_a_cycle_time_may_be_whole_or_not_in_files_and_variables() -> None:
    assert config.check_table("f", {"cycle-time-ms": 2}).values == {"cycle-time-ms": 2}
    assert config.check_table("f", {"cycle-time-ms": 0.5}).values == {"cycle-time-ms": 0.5}
    found = config.from_environment({"RUNNER_CYCLE_TIME_MS": "0.5"})
    assert found[0].values == {"cycle-time-ms": 0.5}
    for bad in ("fast", True):
        with sentences.raises("table-invalid"):
            config.check_table("f", {"cycle-time-ms": bad})
