"""Steps of Slurm: a command in a job that runs, beside its ranks."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ..core import shell
from ..core.errors import Refused, SystemFault, UsageError
from .base import Place, Steps
from .slurm_calls import scrubbed

# Which node says what, where several do; the command's exit code stays.
LABELLED = """\
set -o pipefail
label() { sed -u "s/^/$SLURMD_NODENAME | /"; }
{ "$0" "$@" 2>&1 >&3 3>&- | label >&2; } 3>&1 | label"""


class SlurmSteps(Steps):
    """srun in a job that runs."""

    def place(self, id: str) -> Place:
        """Return where a job runs; raise Refused when it does not, SystemFault without an answer.

        The number is that of the job, which a task of an array has too; what runs within another
        job (allocation.py) begins with that one's.
        """
        id = id.partition(".")[0]
        answer = shell.run(["squeue", "--noheader", f"--jobs={id}", "--format=%A|%T|%N"])
        said = answer.err.strip()
        if answer.code != 0 and "Invalid job id" not in said:
            raise SystemFault("Slurm's controller does not answer", said, "scontrol ping")
        number, state, nodes = (answer.out.strip() or "||").split("|")
        if state != "RUNNING":
            why = f"its state: {state.lower()}" if state else "it has ended"
            raise Refused(f"job {id} does not run", why, f"runner status {id}")
        return Place(number, self.names(nodes))

    def names(self, nodes: str) -> tuple[str, ...]:
        """Return the nodes that Slurm's short form, such as n[1-3], stands for."""
        answer = shell.run(["scontrol", "show", "hostnames", nodes])
        if answer.code != 0:
            said = answer.err.strip()
            raise UsageError(f"{nodes!r} is no list of nodes", said, "-w n1,n2 or n[1-2]")
        return tuple(answer.out.split())

    def argv(
        self, place: Place, command: Sequence[str], pty: bool = False, labelled: bool = False
    ) -> list[str]:
        """Return the command line of a step, once on each node of `place`. Pure."""
        pty = pty and len(place.nodes) == 1
        where = [f"--jobid={place.number}", f"--nodelist={','.join(place.nodes)}"]
        where += [] if pty else ["--quit-on-interrupt"]
        label = ["bash", "-c", LABELLED] if labelled and len(place.nodes) > 1 else []
        return [*self.within(len(place.nodes), pty), *where, *label, *command]

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
        """Return the command that prints, in a job's own script, its first nodes, one a line."""
        return f'scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n {nodes}'

    def environment(self) -> dict[str, str]:
        return scrubbed(os.environ)
