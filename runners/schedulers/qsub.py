"""What PBS and Cobalt have in common: qsub and qdel, and Slurm's words that they do not have.

A job does not get the environment that it was submitted from: what it needs belongs in --env.
"""

from __future__ import annotations

import re
import shlex
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import fields
from pathlib import Path

from ..core import gpus, shell
from ..core.diagnosis import Diagnosis, refusal
from ..core.errors import Refused, SystemFault
from ..core.job_record import ArrayPaths, JobPaths, Status
from ..core.model import JobSpec, Resources
from ..core.plan import Plan
from ..core.remedy import change
from .base import Scheduler, limit_seconds

GPUS = "gpus_per_node"  # of which --gpus and --gpus-per-task have another number
RANKS = ("nodes", "ntasks", "ntasks_per_node", "cpus_per_task")
HAS = (*RANKS, GPUS, "gres", "exclusive", "time", "partition", "account")
# By a setting that is not there, the one that says the same: a reservation has its own queue.
INSTEAD = {"qos": "partition", "reservation": "partition", "gpus": GPUS, "gpus_per_task": GPUS}


class Qsub(Scheduler):
    """PBS or Cobalt: `title`, how a job's number looks, and beside HAS what else it `has`."""

    SHEBANG = "#!/bin/bash -l"  # `module` is there in login shells only
    title: str
    number: re.Pattern[str]
    has: tuple[str, ...] = ()

    def refusals(self, spec: JobSpec, resources: Resources) -> tuple[Diagnosis, ...]:
        return (*self._unknown(resources), *self._endless(resources))

    def _unknown(self, resources: Resources) -> Iterator[Diagnosis]:
        for name in (item.name for item in fields(resources)):
            value = getattr(resources, name)
            if value in (None, False) or name in (*HAS, *self.has):
                continue
            option, replacement = name.replace("_", "-"), INSTEAD.get(name, "")
            wanted = gpus.on_a_node(resources)
            said = wanted[1] if wanted and replacement == GPUS else value
            options = {replacement.replace("_", "-"): said} if replacement else {}
            yield refusal(
                "option-not-of-scheduler",
                f"{self.title} has no --{option}",
                f"--{option} is {value}; --sbatch-arg takes any line of {self.title}'s own",
                change(options, leave_out=[option]),
            )

    def _endless(self, resources: Resources) -> Iterator[Diagnosis]:
        limit, remedy = resources.time, change(time="01:00:00")
        if limit is None:
            yield refusal(
                "time-missing", f"{self.title} wants a time limit", "--time is not given", remedy
            )
        elif limit_seconds(limit) is None:
            yield refusal(
                "time-not-of-scheduler", f"{self.title} has no --time {limit}", "", remedy
            )

    def opening(self, plan: Plan, paths: JobPaths, cwd: str, at_terminal: bool) -> list[str]:
        """Return the script's first steps: its folder, and the log, unless a terminal has it.

        PBS brings a job's output when the job has ended, and reads host:path in its name.
        """
        log = shlex.quote(plan.spec.output or str(paths.log))
        return [f"cd {shlex.quote(cwd)} || exit", *([] if at_terminal else [f"exec >> {log} 2>&1"])]

    def by_hand(self, paths: JobPaths) -> str:
        return shlex.join(["qsub", str(paths.script)])

    def submit(self, paths: JobPaths | ArrayPaths, log: Path) -> str:
        return self.parse_submit(shell.run(["qsub", str(paths.script)]))

    def parse_submit(self, answer: shell.Result) -> str:
        """Return the number, such as 123.server, at the end of qsub's words; a hook may say more.

        Raises Refused with what was said.
        """
        words = answer.out.split()
        if answer.code != 0 or not words or not self.number.fullmatch(words[-1]):
            output = answer.err.strip() or answer.out.strip()
            raise Refused(
                f"{self.title} refused the job; nothing was submitted", output, id="job-refused"
            )
        return words[-1]

    def states(self, ids: Iterable[str]) -> dict[str, Status]:
        ids = list(ids)
        known = self.parse_states(shell.run(self.states_argv(ids)))
        numbers = {id: id.split(".")[0] for id in ids}
        return {id: known[number] for id, number in numbers.items() if number in known}

    @abstractmethod
    def states_argv(self, ids: Iterable[str]) -> list[str]:
        """Return the command that asks for jobs."""

    @abstractmethod
    def parse_states(self, answer: shell.Result) -> dict[str, Status]:
        """Return states by number; raise SystemFault for what is not understood."""

    def cancel(self, id: str) -> None:
        answer = shell.run(["qdel", id])
        if answer.code != 0:
            output = answer.err.strip() or answer.out.strip()
            raise SystemFault(f"{self.title} did not cancel job {id}", output, id="cancel-failed")


def queue_options(resources: Resources) -> list[str]:
    """Return the options for a queue, which is Slurm's partition, and an account."""
    given = (("-q", resources.partition), ("-A", resources.account))
    return [f"{letter} {value}" for letter, value in given if value]


def job_name(name: str) -> str:
    """Return a name that both take: visible, without blanks, a letter or digit first."""
    plain = re.sub(r"[^A-Za-z0-9_.+-]", "_", name)
    return (plain if plain[0].isalnum() else f"j{plain}")[:230]
