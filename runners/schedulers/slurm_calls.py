"""How Slurm's commands are called: environment, questions, sbatch, salloc, refusals, and steps; and
what a cluster says of itself: its PMI types, partitions and settings.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ..core import shell
from ..core.errors import Refused, RunnerError, SystemFault, UsageError
from ..core.plan import Plan
from ..core.site import Partition
from .base import JobLocation, Steps
from .slurm_script import resource_options

# These two reach sbatch although all else of Slurm's is removed: they say which cluster it is.
KEPT = ("SLURM_CONF", "SLURM_CLUSTERS")
SILENT = "Slurm's controller does not answer"
# What sbatch says when its message has gone, or may have, and no answer came.
NO_ANSWER = ("timed out", "Zero Bytes were transmitted or received", "Unexpected message received")
# salloc's own words, the same from 22.05 to 26.05: "salloc: Pending job allocation 42".
NUMBER = re.compile(r"^salloc: (Pending|Granted) job allocation (\d+)$")
# What to look at when a job is refused, by the words in which it is: those of slurm_errno.c, the
# same from Slurm 22.05 to 26.05, and sbatch's own.
MINE = "sacctmgr show associations user=$USER format=account%20,partition%20,qos%40"
KINDS = "sinfo --exact --format='%P %D %c %m %G %f'"
OF_NODES = (
    *("memory specification", "node configuration", "node count", "cpu count", "processors"),
    *("feature", "generic resource", "(gres)"),
)
LISTING_COMMANDS = (
    ("invalid partition", "sinfo --summarize"),
    ("partition name", "sinfo --summarize"),
    ("time limit", "sinfo --format='%P %l'"),
    ("account", MINE),
    ("invalid qos", MINE),
    ("qos policy", "sacctmgr show qos format=name,maxwall,maxtrespu,maxjobspu,maxsubmitpu"),
    ("dependency", "squeue --me"),
    ("reservation", "scontrol show reservations"),
    *((words, KINDS) for words in OF_NODES),
    ("node name", "sinfo --Node"),
)
MPI_LIST = ["srun", "--mpi=list"]
CONFIG = ["scontrol", "show", "config"]
# sinfo(1), -o: name with * for the default, nodes, CPUs, GRES, time limit, disk.
# With --exact, nodes that differ have lines of their own.
PARTITIONS = ["sinfo", "--noheader", "--exact", "--format=%P|%D|%c|%G|%l|%d"]
# gpu:A100:4(S:0-1), gpu:2, gpu:a100_1g.5gb:7
GPU = re.compile(r"gpu(?::(?P<type>[^:(]+))?:(?P<count>\d+)")

# Which node says what, where several do; the command's exit code stays.
LABELLED = """\
set -o pipefail
label() { sed -u "s/^/$SLURMD_NODENAME | /"; }
{ "$0" "$@" 2>&1 >&3 3>&- | label >&2; } 3>&1 | label"""


def scrubbed(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without what a surrounding job, or SBATCH_*, would tell sbatch."""
    prefixes = ("SLURM_", "SBATCH_", "SRUN_", "PMI_", "PMIX_")
    return {
        name: value
        for name, value in env.items()
        # PMIX_MCA_* are the user's settings, which no job makes.
        if name in KEPT or name.startswith("PMIX_MCA_") or not name.startswith(prefixes)
    }


def ask(argv: Sequence[str], **variables: str) -> str:
    """Return what a command prints; raise SystemFault when the controller does not answer."""
    answer = shell.run(argv, env={**os.environ, **variables})
    if answer.code != 0:
        raise SystemFault(SILENT, answer.err.strip(), "scontrol ping")
    return answer.out


def parse_mpi_list(text: str) -> tuple[str, ...]:
    """Return the types that `srun --mpi=list` prints, such as none, pmi2, pmix and pmix_v5.

    Slurm 22.05 to 26.05 print a heading, one indented type a line, and a line of pmix versions.
    """
    types: list[str] = []
    for line in text.splitlines():
        if line.startswith(("\t", " ")):
            types.append(line.strip())
        elif line.startswith("specific pmix plugin versions available:"):
            types += [version.strip() for version in line.split(":", 1)[1].split(",")]
    return tuple(types)


def parse_config(text: str) -> dict[str, str]:
    """Return the settings of `scontrol show config`, in which (null) stands for none."""
    settings = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals:
            settings[name.strip()] = "" if value.strip() == "(null)" else value.strip()
    return settings


def parse_partitions(text: str) -> tuple[Partition, ...]:
    """Return the partitions in sinfo's lines; raise ValueError for a line of another form."""
    partitions: dict[str, Partition] = {}
    for line in text.splitlines():
        one = _parse_partition(line)
        partitions[one.name] = _merged(partitions[one.name], one) if one.name in partitions else one
    return tuple(partitions.values())


def _parse_partition(line: str) -> Partition:
    name, nodes, cpus, gres, limit, disk = line.split("|")
    return Partition(
        name.rstrip("*"),
        int(nodes),
        int(cpus.rstrip("+")),
        tuple((match["type"] or "", int(match["count"])) for match in GPU.finditer(gres)),
        limit,
        name.endswith("*"),
        int(disk.rstrip("+")),
    )


def _merged(one: Partition, other: Partition) -> Partition:
    """Return one partition of two kinds of nodes, as poor as the poorer of them."""
    return replace(
        one,
        nodes=one.nodes + other.nodes,
        cpus=min(one.cpus, other.cpus),
        disk_mb=min(one.disk_mb, other.disk_mb),
        gpus=one.gpus + tuple(gpu for gpu in other.gpus if gpu not in one.gpus),
    )


def has_partition(name: str) -> bool:
    """Whether Slurm has a partition of this name; True where it does not say."""
    (answer,) = shell.together([["scontrol", "show", "partition", name]], 10)
    return answer.code == 0 or "not found" not in answer.out + answer.err


def submit(script: Path) -> str:
    """Submit a script; return the job number.

    Raises Refused with Slurm's own words, SystemFault when the controller does not answer.
    """
    check_controller(shell.run(["scontrol", "ping"], timeout=30))
    command = ["sbatch", "--parsable", str(script)]
    try:
        return parse_submit(shell.run(command, env=scrubbed(os.environ), apart=True))
    except shell.NoAnswer as error:
        raise no_answer(error.what, error.evidence) from None


def check_controller(answer: shell.Result) -> None:
    """Raise SystemFault unless `scontrol ping` found a controller; sbatch would wait long."""
    if answer.code != 0 or " UP" not in answer.out:
        raise SystemFault(
            f"{SILENT}; nothing was submitted",
            (answer.out + answer.err).strip(),
            "scontrol ping, and ask the site's administrators if it stays down",
        )


def no_answer(message: str, output: str) -> RunnerError:
    """Return the error for a submission without an answer; `output` is what sbatch said before."""
    if "temporarily unable to accept job" in output:
        return Refused(
            "Slurm takes no more jobs now; nothing was submitted",
            f"{output}\nit keeps MaxJobCount jobs, those of all users and those that ended "
            "just now",
            "scontrol show config | grep MaxJobCount, squeue --me, and the same command later",
        )
    removed = "the run's folder is removed: such a job ends at once"
    return SystemFault(
        "Slurm did not answer; whether it has taken the job is not known",
        "\n".join(filter(None, [message, output, removed])),
        "squeue --me, and the same command once more",
    )


def parse_submit(answer: shell.Result) -> str:
    """Return the number from `sbatch --parsable`, which may add `;cluster`."""
    errors = answer.err.strip()
    if answer.code != 0 and any(words in errors for words in NO_ANSWER):
        raise no_answer("", errors)
    if answer.code != 0:
        remedy = listing_command(errors)
        raise Refused("Slurm refused the job; nothing was submitted", errors, remedy)
    return answer.out.strip().splitlines()[-1].split(";")[0]


def listing_command(output: str) -> str:
    """Return the command that shows what there is instead; "" for a refusal of another kind."""
    words = output.lower()
    return next((command for part, command in LISTING_COMMANDS if part in words), "")


def salloc(plan: Plan) -> list[str]:
    """Return the command that waits for nodes at a terminal, without what runs in them."""
    options = [f"--job-name={plan.spec.name}", *resource_options(plan.resources)]
    return ["salloc", *options, *plan.spec.sbatch_args]


def parse_salloc(line: str) -> tuple[str, bool] | None:
    """Return a job's number, and whether it has its nodes, from a line of what salloc says."""
    match = NUMBER.match(line)
    return (match.group(2), match.group(1) == "Granted") if match else None


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
            raise SystemFault(SILENT, errors, "scontrol ping")
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
        self, place: JobLocation, command: Sequence[str], pty: bool = False, labelled: bool = False
    ) -> list[str]:
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
        return f'scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n {nodes}'

    def environment(self) -> dict[str, str]:
        return scrubbed(os.environ)
