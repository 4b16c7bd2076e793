"""What is known of a script's variables at one place of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Union

from .words import ADDRESS, ARGUMENT, BATCH, ENVIRONMENT, FILE, RUN, Unknown, Word, literal, unknown

Value = Union[Word, tuple[Word, ...]]
TASK = "SLURM_ARRAY_TASK_ID"
JOB_NUMBERS = ("SLURM_JOB_ID", "SLURM_JOBID", "PBS_JOBID")
OF_JOB = (*JOB_NUMBERS, "PBS_NODEFILE", "SLURM_JOB_NODELIST")  # never empty in a job
NODE_LISTS = ("SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURMD_NODENAME", "HOSTNAME")
# Variables that a job sets, by how they begin, and those of bash itself.
OF_RUN = ("SLURM_", "SLURMD_", "PBS_", "COBALT_", "PMI_", "PALS_", "PMIX_", "OMPI_", "MPI_", "MV2_")
OWN = (
    *("RANDOM", "SECONDS", "BASHPID", "SLURM_JOB_NAME", "CUDA_VISIBLE_DEVICES"),
    *("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"),
)
# The script's shell runs on the first node, and is no rank.
OF_FIRST = ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID")
# The folder in which the script was submitted; there the launch line is typed.
SUBMITTED = ("SLURM_SUBMIT_DIR", "PBS_O_WORKDIR", "COBALT_CWD")
# Variables that every login has, whatever a sourced file sets.
OF_LOGIN = ("USER", "HOME", "LOGNAME", "PWD", "SCRATCH", "PSCRATCH", "WORK", "PATH", "SHELL")


@dataclass
class Scope:
    """What is known of variables at a place of the script.

    `given` has what the directives fix, such as SLURM_NNODES. `sourced`: a file was read that may
    set any variable. `per_rank`: the text runs once on each rank. `arguments` are None for those of
    the script, which only the submission knows.
    """

    variables: dict[str, Value] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)
    arguments: list[Word] | None = None
    given: Mapping[str, str] = field(default_factory=dict)
    sourced: bool = False
    per_rank: bool = False

    def copy(self) -> Scope:
        return replace(self, variables=dict(self.variables), exported=set(self.exported))

    def value(self, name: str, line: int) -> Value:
        """Return a variable's value, or what kind of unknown it is."""
        if name in self.variables:
            return self.variables[name]
        if name.isdecimal():
            arguments, place = self.arguments or [], int(name) - 1
            if 0 <= place < len(arguments):
                return arguments[place]
            return unknown(f"${name}", ARGUMENT, line)
        if name in self.given:
            return literal(self.given[name], line)
        folder = self.variables.get("PWD")
        if name in SUBMITTED and (not isinstance(folder, Word) or folder.text == "$PWD"):
            return unknown("$PWD", ENVIRONMENT, line)
        if name in NODE_LISTS:
            return unknown(f"${name}", ADDRESS, line)
        if name in OF_FIRST and not self.per_rank:
            return literal("0", line)
        if (name in OWN or not name.isidentifier()) and not self.per_rank:
            return unknown(f"${name}", BATCH, line)
        if name.startswith(OF_RUN) or name in (*OWN, "TMPDIR") or not name.isidentifier():
            return unknown(f"${name}", RUN, line)
        return unknown(f"${name}", self._kind(name), line)

    def _kind(self, name: str) -> str:
        return FILE if self.sourced and name not in OF_LOGIN else ENVIRONMENT


def hidden(value: Value, name: str, kind: str) -> Word:
    """Return a variable whose value differs; what it was made of stays known to the rules."""
    word = value if isinstance(value, Word) else literal("")
    digits, padded = (any(getattr(p, n) for p in word.unknown) for n in ("digits", "padded"))
    return Word((Unknown(f"${name}", kind, word.line, (), digits, padded),), word.line)
