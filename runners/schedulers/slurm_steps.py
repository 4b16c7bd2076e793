"""Steps of a job that runs: srun, and where the job is."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ..core import shell
from ..core.errors import Refused, SystemFault, UsageError
from .base import JobLocation, Steps
from .slurm_queries import NO_ANSWER_TEXT
from .slurm_submit import scrubbed

# Which node says what, where several do; the command's exit code stays.
LABELLED = """\
set -o pipefail
label() { sed -u "s/^/$SLURMD_NODENAME | /"; }
{ "$0" "$@" 2>&1 >&3 3>&- | label >&2; } 3>&1 | label"""


class SlurmSteps(Steps):
    """srun in a job that runs."""

    def location(self, id: str) -> JobLocation:
        """Return where a job runs; raise Refused when it does not, SystemFault without an answer.

        The number is that of the job, which a task of an array has too; what runs within another
        job (allocation.py) begins with that one's.
        """
        id = id.partition(".")[0]
        answer = shell.run(["squeue", "--noheader", f"--jobs={id}", "--format=%A|%T|%N"])
        errors = answer.err.strip()
        if answer.code != 0 and "Invalid job id" not in errors:
            raise SystemFault(NO_ANSWER_TEXT, errors, "scontrol ping")
        number, state, nodes = (answer.out.strip() or "||").split("|")
        if state != "RUNNING":
            why = f"its state: {state.lower()}" if state else "it has ended"
            raise Refused(f"job {id} does not run", why, f"runner status {id}")
        return JobLocation(number, self.names(nodes))

    def names(self, nodes: str) -> tuple[str, ...]:
        answer = shell.run(["scontrol", "show", "hostnames", nodes])
        if answer.code != 0:
            errors = answer.err.strip()
            raise UsageError(f"{nodes!r} is no list of nodes", errors, "-w n1,n2 or n[1-2]")
        return tuple(answer.out.split())

    def argv(
        self,
        location: JobLocation,
        command: Sequence[str],
        pty: bool = False,
        labelled: bool = False,
    ) -> list[str]:
        pty = pty and len(location.nodes) == 1
        where = [f"--jobid={location.number}", f"--nodelist={','.join(location.nodes)}"]
        where += [] if pty else ["--quit-on-interrupt"]
        label = ["bash", "-c", LABELLED] if labelled and len(location.nodes) > 1 else []
        return [*self.within(len(location.nodes), pty), *where, *label, *command]

    def within(self, nodes: int, pty: bool = False) -> list[str]:
        """Return srun and its options for a step beside all others: one task on each node.

        Without PMI, which would make it a world; with all CPUs and the memory of the job there.
        """
        return [*self.once_per_node(nodes), "--mem=0", *(["--pty"] if pty else [])]

    def once_per_node(self, nodes: int) -> list[str]:
        """Return srun and its options for a helper that takes no memory to speak of."""
        argv = ["srun", "--overlap", f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1"]
        return [*argv, "--mpi=none", "--cpu-bind=none"]

    def list_nodes(self, nodes: int) -> str:
        return f'scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n {nodes}'

    def environment(self) -> dict[str, str]:
        return scrubbed(os.environ)
