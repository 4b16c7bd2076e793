"""The part of a job's script that stages its data. Pure: plan in, lines out.

`hold` runs beside the training on each node and removes what was staged when the script, at its
end, closes the pipe that it reads. A step of its own for that could not be: Slurm starts none in a
job that is being cancelled, and kills what runs after KillWait seconds. What then stays the next
job of the same user removes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..model import Dataset, Plan
from ..tokens import Expanded, join, quote

HELPER = Path(__file__).parent / "stage"
# Slurm's plugins and sites set these in a job; a profile's own folder comes before them.
SCRATCH = "${SLURM_TMPDIR:-${TMPDIR:-/tmp}}"
# The script's own end follows, and gets the exit code that it would have had.
AT_THE_END = "trap 'code=$?; exec {release}>&-; wait $holder; (exit $code); finish' EXIT"


def source(dataset: Dataset, staged: bool) -> str:
    """Return where a dataset is for the ranks; the folder on the node's disk the script knows."""
    return Expanded(f"$stage/{dataset.entry}") if staged else str(dataset.path)


@dataclass(frozen=True)
class Staging:
    """What is staged, and on which nodes of whose: `root` is "" for the job's own scratch."""

    data: tuple[Dataset, ...]
    scheduler: str
    nodes: int
    root: str = ""


def of(plan: Plan, helper: str) -> list[str]:
    """Return the lines of a job; none for one that stages nothing."""
    nodes = plan.spec.resources.nodes
    staging = Staging(plan.spec.data, plan.scheduler, nodes, plan.stage_root)
    return lines(staging, helper) if plan.staged else []


def lines(staging: Staging, helper: str) -> list[str]:
    """Return the lines that bring the data to each node; `helper` is the folder of `stage`."""
    root = quote(Expanded(staging.root)) if staging.root else SCRATCH
    text = [
        "# The data on each node's own disk; `hold` removes it once its input ends.",
        f"stage={root}",
        'stage+="/runner-$UID-${SLURM_JOB_ID:-local}.$$"',
        f'on_each_node() {{ {_once_per_node(staging)}python3 {quote(helper)} "$@"; }}',
        'exec {release}> >(on_each_node hold "$stage")',
        "holder=$!",
        AT_THE_END,
    ]
    for dataset in staging.data:
        text += _bring(dataset, staging)
    return [*text, ""]


def _once_per_node(staging: Staging) -> str:
    """Return what starts a command once on each node of the job, beside other steps."""
    if staging.scheduler == "local":
        return ""
    nodes = staging.nodes
    argv = ["srun", "--overlap", f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1"]
    return join([*argv, "--mpi=none", "--cpu-bind=none"]) + " "


def _bring(dataset: Dataset, staging: Staging) -> list[str]:
    """One file goes to several nodes by sbcast, read once; what that did not do each node does."""
    path, entry = quote(str(dataset.path)), quote(dataset.entry)
    copy = f'on_each_node copy "$stage" {entry} {path} < /dev/null || exit'
    if not (dataset.squashfs and staging.scheduler == "slurm" and staging.nodes > 1):
        return [copy]
    room = f'on_each_node room "$stage" {path} < /dev/null || exit'
    return [room, f'sbcast --force {path} "$stage"/{entry}', copy]
