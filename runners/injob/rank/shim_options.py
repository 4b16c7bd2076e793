"""The options of the shim around a trainer."""

from __future__ import annotations

import argparse

from ...contract.enums import Controller
from ..task import Task


class ShimOptions(argparse.Namespace):
    """The options, under the names that `start.parse` gives them.

    `interfaces` are those that Gloo may use; without any, Gloo's is found. `command` is
    `-m RECIPE`, a Python file or a program, with its arguments. `check` is whether the gate checks
    the world size. An `agent` starts `workers` ranks for each task. With `errors` the trainer's
    stderr goes to ours too.
    """

    launcher: str
    tasks: int | None
    controller: Controller
    check: bool
    agent: str
    workers: int
    tf_config: bool
    interfaces: tuple[str, ...]
    gpus: bool
    nv_alone: bool
    driver: str | None
    cpu_level: str
    errors: bool
    core_files: bool
    profile_with: str
    profile_ranks: str
    profile_tool: str
    run_dir: str
    command: list[str]
    ours: bool  # whether Horovod's ranks meet by our rendezvous

    def meets_others(self, task: Task) -> bool:
        """Whether this rank has to find the others, or its agent has."""
        return task.size > 1 or self.ours or bool(self.agent)

    def uses_held_port(self, task: Task) -> bool:
        """Whether a server of this rank's trainer may listen on the port that is held for it."""
        return self.tf_config or (task.rank == 0 and (task.size > 1 or bool(self.agent)))
