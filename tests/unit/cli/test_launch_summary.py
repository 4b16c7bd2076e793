"""The line of a launch that says what runs where."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from runners.cli import COMMANDS, cli
from runners.cli.train import plan_summary
from runners.contract.enums import Controller
from runners.core.model import (
    ImageInfo,
    JobSpec,
    LauncherName,
    Resources,
    RuntimeName,
    SchedulerName,
)
from runners.core.plan import Launching, Plan, Wireup
from runners.core.trainer import Trainer
from runners.settings import trainers

TWO = Resources(nodes=2, ntasks_per_node=1, cpus_per_task=2, time="30:00", partition="debug")


def plan(resources: Resources) -> Plan:
    """Return a plan in which the ranks meet through PMIx."""
    trainer = Trainer("t", "recipes.t", None)
    spec = JobSpec(
        "t", ImageInfo(Path("/images/horovod_cpu.sif")), trainer, resources, Path("/runs")
    )
    wireup = Wireup(Controller.MPI, "pmix_v5")
    return Plan(
        spec,
        spec.resources,
        Launching(SchedulerName.SLURM, RuntimeName.APPTAINER, LauncherName.SRUN),
        wireup,
    )


def test_nodes_ranks_cpus_time_image_and_how_ranks_meet() -> None:
    assert plan_summary.line(plan(TWO)) == (
        "2 nodes x 1 rank, 2 CPUs each, 30 min, partition debug, horovod_cpu.sif, MPI over PMIx"
    )


@pytest.mark.parametrize(
    ("resources", "begins"),
    [
        (Resources(), "1 node x 1 rank, horovod"),
        (Resources(nodes=2, ntasks=3), "3 ranks on 2 nodes, horovod"),
        (Resources(nodes=2, ntasks=1), "1 rank on 2 nodes, horovod"),
        (Resources(ntasks=4, cpus_per_task=1), "1 node x 4 ranks, 1 CPU each, horovod"),
        (Resources(time="4:00:00"), "1 node x 1 rank, 4 h, horovod"),
        (Resources(time="1-1:30:00"), "1 node x 1 rank, 25 h 30 min, horovod"),
        (Resources(time="0:30"), "1 node x 1 rank, time 0:30, horovod"),
        (Resources(time="UNLIMITED"), "1 node x 1 rank, time UNLIMITED, horovod"),
        (Resources(gpus_per_node="a100:4"), "1 node x 1 rank, GPUs on each node: a100:4, horovod"),
    ],
)
def test_forms_of_resources(resources: Resources, begins: str) -> None:
    assert plan_summary.line(plan(resources)).startswith(begins)


@pytest.mark.parametrize(
    ("source", "ends"),
    [
        ("import torch.distributed as dist\n", ", torch.distributed"),
        ("from torch.nn.parallel import DistributedDataParallel\n", ", torch.distributed"),
        ("s = tf.distribute.MultiWorkerMirroredStrategy()\n", ", tf.distribute"),
        ("import horovod.torch as hvd\nimport torch.distributed\n", ", MPI over PMIx"),
        ("import mpi4py.MPI\n", ", MPI over PMIx"),
        ("import lightning as L\nL.Trainer(devices=1)\n", ", torch.distributed"),
        ("import lightning\nimport horovod.torch\n", ", MPI over PMIx"),
        ("import torch\n", ", horovod_cpu.sif"),
    ],
)
def test_a_script_without_horovod_is_not_said_to_meet_by_its_mpi(
    tmp_path: Path, source: str, ends: str
) -> None:
    (tmp_path / "train.py").write_text(source)
    trainer, _ = trainers.find(str(tmp_path / "train.py"), ())
    made = plan(TWO)
    made = replace(made, spec=replace(made.spec, trainer=trainer))
    assert plan_summary.line(made).endswith(ends)


def test_gloo_and_mpirun_are_named() -> None:
    made = plan(TWO)
    assert plan_summary.line(replace(made, wireup=Wireup(Controller.GLOO))).endswith(", Gloo")
    assert plan_summary.line(
        replace(
            made,
            launching=Launching(SchedulerName.SLURM, RuntimeName.APPTAINER, LauncherName.MPIRUN),
        )
    ).endswith(", MPI by mpirun")


def test_help_has_headings_and_every_option_once() -> None:
    text = CliRunner().invoke(cli, ["launch", "--help"]).output
    headings = [line for line in text.splitlines() if line.endswith(":") and line[:1].isalpha()]
    assert headings[:6] == [
        "Options:", "Resources:", "Job:", "Image and data:", "Horovod and MPI:", "Runner:",
    ]  # fmt: skip
    assert text.count("\n  --runtime ") == text.count("\n  --dry-run") == 1


def test_help_has_each_command_once_below_a_heading() -> None:
    text = CliRunner().invoke(cli, ["--help"]).output
    assert text.index("\nTrain:") < text.index("\n  launch ") < text.index("\nRuns:")
    for name in COMMANDS:
        assert text.count(f"\n  {name} ") == 1


@pytest.mark.parametrize(
    ("words", "ends"),
    [
        (("bash", "-c", "hostname"), ", horovod_cpu.sif"),
        (("bash", "-c", "python3 -m horovod.runner"), ", MPI over PMIx"),
        (("python3", "-m", "pkg.train"), ", horovod_cpu.sif"),
        (("torch_mnist",), ", MPI over PMIx"),
    ],
)
def test_a_program_is_not_said_to_use_mpi(words: tuple[str, ...], ends: str) -> None:
    trainer, _ = trainers.find(words[0], words[1:])
    made = plan(TWO)
    made = replace(made, spec=replace(made.spec, trainer=trainer))
    assert plan_summary.line(made).endswith(ends)
