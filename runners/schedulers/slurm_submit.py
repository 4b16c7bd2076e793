"""sbatch and salloc: their environment, command lines, answers and refusals."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from ..core import shell
from ..core.errors import Refused, RunnerError, SystemFault
from ..core.plan import Plan
from .slurm_queries import NO_ANSWER_TEXT
from .slurm_script import resource_options

# These two reach sbatch although all else of Slurm's is removed: they say which cluster it is.
KEPT_VARIABLES = ("SLURM_CONF", "SLURM_CLUSTERS")
# What sbatch says when its message has gone, or may have, and no answer came.
LOST_REPLY = ("timed out", "Zero Bytes were transmitted or received", "Unexpected message received")
# salloc's own words, the same from 22.05 to 26.05: "salloc: Pending job allocation 42".
SALLOC_LINE = re.compile(r"^salloc: (Pending|Granted) job allocation (\d+)$")
# What to look at when a job is refused, by the words in which it is: those of slurm_errno.c, the
# same from Slurm 22.05 to 26.05, and sbatch's own.
LIST_ACCOUNTS = "sacctmgr show associations user=$USER format=account%20,partition%20,qos%40"
LIST_NODE_KINDS = "sinfo --exact --format='%P %D %c %m %G %f'"
NODE_WORDS = (
    *("memory specification", "node configuration", "node count", "cpu count", "processors"),
    *("feature", "generic resource", "(gres)"),
)
LISTING_COMMANDS = (
    ("invalid partition", "sinfo --summarize"),
    ("partition name", "sinfo --summarize"),
    ("time limit", "sinfo --format='%P %l'"),
    ("account", LIST_ACCOUNTS),
    ("invalid qos", LIST_ACCOUNTS),
    ("qos policy", "sacctmgr show qos format=name,maxwall,maxtrespu,maxjobspu,maxsubmitpu"),
    ("dependency", "squeue --me"),
    ("reservation", "scontrol show reservations"),
    *((words, LIST_NODE_KINDS) for words in NODE_WORDS),
    ("node name", "sinfo --Node"),
)


def scrubbed(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without what a surrounding job, or SBATCH_*, would tell sbatch."""
    prefixes = ("SLURM_", "SBATCH_", "SRUN_", "PMI_", "PMIX_")
    return {
        name: value
        for name, value in env.items()
        # PMIX_MCA_* are the user's settings, which no job makes.
        if name in KEPT_VARIABLES or name.startswith("PMIX_MCA_") or not name.startswith(prefixes)
    }


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
            f"{NO_ANSWER_TEXT}; nothing was submitted",
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
    if answer.code != 0 and any(words in errors for words in LOST_REPLY):
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
    match = SALLOC_LINE.match(line)
    return (match.group(2), match.group(1) == "Granted") if match else None
