"""`runner plan`: what it says to programs and to people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from runners.cli import cli
from runners.core import diagnosis

TWO_NODES = ("--image", "horovod_cpu.sif", "--nodes", "2", "--mpi", "none", "train.py")


@pytest.fixture(autouse=True)
def machine_without_slurm(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "train.py").touch()
    monkeypatch.setenv("PATH", str(here))


def plan(*words: str) -> Any:
    return CliRunner().invoke(cli, ["plan", *words])


def test_programs_get_one_list_of_refusals_and_warnings() -> None:
    done = plan("--json", *TWO_NODES)
    told = json.loads(done.stdout)
    assert (done.exit_code, told["version"], told["works"]) == (80, diagnosis.VERSION, False)
    found = [(value["severity"], value["id"]) for value in told["diagnoses"]]
    assert found == [
        ("failure", "one-machine"),
        ("failure", "no-runtime"),
        ("warning", "image-not-built"),
        ("warning", "mpi-type-unused"),
    ]
    assert told["diagnoses"][1]["remedies"] == [
        {"kind": "command", "text": "module load apptainer"}
    ]


def test_people_read_the_same_with_what_to_try_at_the_end() -> None:
    lines = plan(*TWO_NODES).stdout.splitlines()
    assert lines[-7:] == [
        "  try: runner build cpu",
        "warning: --mpi none has no effect: local starts the ranks, not srun",
        "refused: --nodes 2 needs a scheduler, and this is one machine",
        "  no sbatch on this machine",
        "refused: there is no container runtime on this machine",
        "  neither apptainer nor singularity is on the PATH",
        "try: module load apptainer",
    ]
