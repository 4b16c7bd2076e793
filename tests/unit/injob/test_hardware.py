"""The x86-64 level that an image's Horovod is compiled for, and the nodes' CPUs."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from containers import horovod_source
from containers.horovod_image import labels
from containers.image_catalogue import HERE
from runners.contract.enums import Controller
from runners.contract.exit_codes import EXIT_REFUSED
from runners.core.model import ImageInfo, JobSpec, Resources, RuntimeName, SchedulerName
from runners.core.site import Site
from runners.core.trainer import Trainer
from runners.injob.rank import hardware

from ..plans import planned

IMAGE = ImageInfo(
    Path("/i.sif"),
    {"horovod.version": "0.28.1", "horovod.controllers": "mpi,gloo", "cpu.level": "x86-64-v3"},
)
TRAINER = Trainer("train.py", None, Path("/t/train.py"))
SPEC = JobSpec("job", IMAGE, TRAINER, Resources(nodes=2), Path("/runs"))
ALL = "avx avx2 bmi1 bmi2 f16c fma abm movbe xsave"
# An Ivy Bridge of 2012, in part
OLD = "fpu sse4_2 popcnt avx f16c xsave"


def with_flags(monkeypatch: pytest.MonkeyPatch, folder: Path, flags: str) -> None:
    file = folder / "cpuinfo"
    file.write_text(f"processor\t: 0\nflags\t\t: fpu {flags} sse\nbugs\t\t: x\n")
    monkeypatch.setattr(hardware, "CPUINFO", str(file))


def test_what_a_cpu_lacks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_flags(monkeypatch, tmp_path, ALL)
    assert hardware.cpu_problem("x86-64-v3", "n1") is None
    with_flags(monkeypatch, tmp_path, OLD)
    problem = hardware.cpu_problem("x86-64-v3", "n1")
    assert problem is not None
    assert problem.text == "the CPU of n1 is too old for the Horovod in the image"
    assert "has no abm, avx2, bmi1, bmi2, fma, movbe" in problem.fields["evidence"][0]


def test_where_nothing_is_known_nothing_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_flags(monkeypatch, tmp_path, OLD)
    assert hardware.cpu_problem("", "n1") is None
    monkeypatch.setattr(hardware, "CPUINFO", str(tmp_path / "absent"))
    assert hardware.cpu_problem("x86-64-v3", "n1") is None


def test_label_compiler_and_check_mean_the_same_level() -> None:
    level = labels.CPU_LEVELS["x86_64"]
    assert level in hardware.LEVELS
    assert f"-march={level} " in horovod_source.FLAGS["x86_64"]
    assert f'"{horovod_source.FLAGS["x86_64"]}"' in (HERE / "horovod/compile.sh").read_text()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="other CPUs have no such levels")
def test_a_rank_on_an_old_cpu_is_refused_before_its_trainer(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text(f"flags\t: {OLD}\n")
    options = ["--tasks", "1", "--controller", "gloo", "--cpu-level", "x86-64-v3"]
    options += ["--run-dir", str(tmp_path), "--", "bash", "-c", "echo STARTED"]
    code = (
        "import sys; from runners.injob.rank import hardware, start; "
        f"hardware.CPUINFO = {str(tmp_path / 'cpuinfo')!r}; sys.exit(start.main({options!r}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == EXIT_REFUSED, done.stderr
    assert "STARTED" not in done.stdout
    assert "is too old for the Horovod in the image\n  it is compiled for x86-64-v3" in done.stdout
    record = json.loads((tmp_path / "failures/rank-0.json").read_text())
    assert (record["kind"], record["exit_code"]) == ("cpu", EXIT_REFUSED)


@pytest.mark.parametrize(
    ("image", "controller", "level"),
    [
        (IMAGE, "gloo", "x86-64-v3"),
        (IMAGE, "none", ""),  # Horovod is not used
        (ImageInfo(IMAGE.path, {**IMAGE.labels, "cpu.level": "any"}), "gloo", ""),
        (ImageInfo(IMAGE.path), "gloo", ""),
    ],
)
def test_the_plan_has_the_nodes_asked(image: ImageInfo, controller: str, level: str) -> None:
    site = Site((SchedulerName.SLURM,), ("pmix",), RuntimeName.APPTAINER)
    solved = planned(SPEC, site, controller=Controller(controller), image=image)
    assert solved.cpus.level == level
    found = [choice.evidence for choice in solved.choices if choice.id == "cpu-level"]
    assert found == (["its label cpu.level is x86-64-v3"] if level else [])
