"""What the shim tells each process of its trainer, in a variable."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass

from ...contract.enums import Controller
from ..task import Task

VARIABLE = "RUNNER_RANK_SETTINGS"


@dataclass(frozen=True)
class GateSettings:
    """The settings that every process of a rank reads from VARIABLE.

    `workers` are the ranks that a launcher such as torchrun starts for each task. `inbox` is the
    shim's, `store` the port and the prefix of its rendezvous. `check` is false with --no-gate,
    `meets` true where Horovod's Gloo meets by our rendezvous.
    """

    task: Task
    controller: Controller
    run_dir: str
    inbox: tuple[str, str]
    store: tuple[int, str]
    meets: bool
    check: bool = True
    workers: int = 1
    gpus: bool = False

    @property
    def ranks(self) -> int:
        """How many ranks the job started."""
        return self.task.size * self.workers

    def as_text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def read(cls) -> GateSettings:
        values = json.loads(os.environ[VARIABLE])
        controller = Controller(values["controller"])
        return cls(**{**values, "task": Task(**values["task"]), "controller": controller})
