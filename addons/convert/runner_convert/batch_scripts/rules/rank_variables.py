"""Rules about variables that tell a rank its number, where it has that of the script's shell."""

from __future__ import annotations

import re

from ..counts import starts
from ..script import Script
from ..step import JobStep, is_part
from .rule import Places, rule

REDIRECTED = re.compile(r"\d?&?>>?&?\s*\S+")


@rule
def place_of_script(script: Script) -> Places:
    job = script.job
    single = {"SLURM_PROCID": job.tasks, "SLURM_NODEID": job.nodes}
    for step in script.steps if job.scheduler == "slurm" else ():
        for line, name in dict.fromkeys(script.content.noted):
            tasks = single.get(name, job.tasks_per_node)
            alone = 1 in (tasks, starts(job, step.starter)) or not step.starter
            if not alone and not _found_else(step, name) and _is_taken(script, step, name, line):
                what = f"{name} is 0 in the script's shell, and so for each rank of this"
                right = f"srun bash -c '... ${name} ...': the shell of each rank has its own"
                yield line, what, right


def _found_else(step: JobStep, name: str) -> bool:
    """Whether `no_rank_variables` finds it: the number of a node, or of a rank."""
    words = " ".join(word.text for word in step.program)
    rank = re.search(r" --rank[ =]0( |$)", words) or not sets_own_rank(step)
    agent = step.agent.has("node-rank", "machine-rank")
    return bool(agent if name == "SLURM_NODEID" else rank and name == "SLURM_PROCID")


def _is_taken(script: Script, step: JobStep, name: str, line: int) -> bool:
    """Whether a step gets what a line of the script takes of its own shell.

    In a path, as /tmp/cache-$SLURM_NODEID, and in the name of a log it need not be the rank's.
    """
    command = step.command
    lines = range(command.line, command.line + command.source.count("\n") + 1)
    text = REDIRECTED.sub("", command.source)
    here = [assignment for assignment in script.content.assignments if assignment.line == line]
    set_there = {assignment.name for assignment in here if assignment.value.known == "0"}
    words = {*re.findall(r"\$\{?(\w+)", text), *step.variables}
    fed = command.document if step.fed else None
    within = fed and line in range(fed.line, fed.line + fed.text.count("\n") + 1)
    return bool((line in lines and name in text) or within or set_there & words)


@rule
def no_rank_variables(script: Script) -> Places:
    for step in script.steps:
        if step.starter.name == "srun":
            yield from _same_node_number(script, step)
            yield from _same_rank(script, step)
        elif script.job.scheduler == "pbs" and step.starter.name == "mpiexec":
            yield from _none_by_pals(step)


def _same_node_number(script: Script, step: JobStep) -> Places:
    number = step.agent.get("node-rank", "machine-rank")
    static = step.agent.text("rdzv-backend") in ("", "static") and not is_part(step)
    several = (step.starter.count("nodes") or script.job.nodes or 1) > 1
    if number and number.known == "0" and static and several:
        what = "the node's number is that of the script's shell: each node takes itself for 0"
        yield number.line, what, "srun bash -c '... --node_rank=$SLURM_NODEID ...'"


def _same_rank(script: Script, step: JobStep) -> Places:
    if 1 in (script.job.tasks, step.starter.count("ntasks")):
        return
    rank = step.command.exports.get("RANK")
    if rank and rank.known == "0" and not sets_own_rank(step):
        what = "RANK is that of the script's shell: each task takes itself for rank 0"
        yield rank.line, what, "srun bash -c 'RANK=$SLURM_PROCID ...': each task sets its own"
    words = " ".join(word.text for word in step.program)
    if re.search(r" --rank[ =]0( |$)", words):
        right = "bash -c '... --rank $SLURM_PROCID': each task has its own"
        yield step.line, "--rank is that of the script's shell: 0 for each task", right


def sets_own_rank(step: JobStep) -> bool:
    rank = step.command.exports.get("RANK")
    return bool(step.agent or step.shell or step.env.get("RANK", rank) != rank)


def _none_by_pals(step: JobStep) -> Places:
    files = [w.text for w in step.program if (w.known or "").endswith(".py")]
    name = files[0].rpartition("/")[2].lower() if files else ""
    known = sets_own_rank(step) or "RANK" in step.command.exports
    if step.starter.get("ntasks-per-node") and not known and "ddp" in name and "mpi" not in name:
        what = "PALS sets no RANK, WORLD_SIZE or MASTER_ADDR: DDP by env:// finds no world"
        unless = f", unless {files[0]} sets them itself"
        yield step.line, what + unless, "RANK=$PMI_RANK and so on for each rank, or torchrun"
