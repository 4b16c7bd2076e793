"""The cases of the step loop: what is compared with what, in which surroundings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.cluster.state import USER

from ..cluster import IMAGE

KIT = "/opt/kit"
PROGRAM = f"{KIT}/tests/bench/train/steps.py"
CONTAINER = ["apptainer", "exec", "--bind", f"FOLDER,{KIT}", IMAGE]
# What `runner launch` gives a job on CPUs.
OURS = {"OMP_NUM_THREADS": "1"}
MPI = {"OMPI_MCA_btl_vader_single_copy_mechanism": "none"}
CONTROLLERS = {"gloo": {}, "mpi": {**MPI, "OMPI_MCA_mpi_yield_when_idle": "1"}}
FOLDER = f"/scratch/{USER}"


@dataclass(frozen=True)
class Case:
    """One way to train; `to` names the case that it is compared with."""

    backend: str
    controller: str = "gloo"
    options: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    to: str = "DDP"

    def request(self, model: str, ranks: int, steps: int) -> dict[str, Any]:
        """Return what login/turns.py starts."""
        own = [PROGRAM, "FOLDER", self.backend, model, *self.options]
        if self.controller == "none":
            start = ["python3"]
        elif self.controller == "careless":
            start = ["mpirun", "-np", str(ranks), "python"]  # python3 is the one beside mpirun
        else:
            start = ["python3", f"{KIT}/runners/injob", "rank", "--tasks", str(ranks)]
            start += ["--controller", self.controller, "--run-dir", "FOLDER", "--"]
        command = [*CONTAINER, *start, *own]
        return {"command": command, "ranks": ranks, "steps": steps, "env": {**OURS, **self.env}}
