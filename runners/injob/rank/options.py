"""The shim's command line: what to run, and how."""

from __future__ import annotations

import argparse
import os

from .agents import AGENTS
from .task import READERS, Task


class ShimOptions(argparse.Namespace):
    """The options, under the names that `parse` gives them.

    `interfaces` are those that Gloo may use, none to find it. `command` is `-m RECIPE`, a file of
    Python's or a program, and its arguments. `check` is whether the gate holds. An `agent` starts
    `workers` ranks for each task. With `errors` what the trainer writes to stderr goes to ours too.
    """

    launcher: str
    tasks: int | None
    controller: str
    check: bool
    agent: str
    workers: int
    tf_config: bool
    interfaces: tuple[str, ...]
    gpus: bool
    driver: str | None
    cpu_level: str
    errors: bool
    core_files: bool
    run_dir: str
    command: list[str]
    ours: bool  # whether Horovod's ranks meet by our rendezvous

    def meets_others(self, task: Task) -> bool:
        """Whether this rank has to find the others, or its agent has."""
        return task.size > 1 or self.ours or bool(self.agent)

    def uses_held_port(self, task: Task) -> bool:
        """Whether a server of this rank's trainer may listen on the port that is held for it."""
        return self.tf_config or (task.rank == 0 and (task.size > 1 or bool(self.agent)))


def parse(argv: list[str]) -> ShimOptions:
    """Return the options, and the command behind `--`."""
    split = argv.index("--")
    parser = argparse.ArgumentParser(prog="rank", allow_abbrev=False)
    add = parser.add_argument
    add("--launcher", choices=sorted(READERS), default="srun")
    # argparse takes the last of repeated options, which is how `become_mpirun` sets these two.
    add("--tasks", type=int, help="start this many tasks here, with no launcher")
    add("--controller", choices=["mpi", "gloo", "none"], required=True)
    add("--no-gate", dest="check", action="store_false", help="skip the world-size check")
    add("--agent", choices=sorted(AGENTS), default="", help="starts the ranks")
    add("--workers", type=int, default=1, help="ranks that the agent starts here")
    add("--tf-config", action="store_true", help="set TF_CONFIG")
    # The one that the user exported, if there is no option.
    exported = os.environ.get("HOROVOD_GLOO_IFACE", "")
    add("--interface", dest="interfaces", type=_names, default=exported, help="for Gloo: NAME,...")
    add("--nv", dest="gpus", action="store_true", help="look for the NVIDIA driver first")
    add("--driver", metavar="VERSION", help="the oldest for the image's CUDA")
    add("--cpu-level", default="", help="what the image's Horovod is compiled for")
    add("--errors", action="store_true", help="write stderr to stderr too")
    add("--core-files", action="store_true", help="keep the limit of core files as it is")
    add("--run-dir", required=True)
    options = parser.parse_args(argv[:split], ShimOptions(command=argv[split + 1 :]))
    # horovodrun with Gloo brings its own rendezvous and sets every rank's place.
    placed = options.launcher == "horovodrun" and "HOROVOD_RANK" in os.environ
    options.ours = options.controller == "gloo" and not placed
    return options


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())
