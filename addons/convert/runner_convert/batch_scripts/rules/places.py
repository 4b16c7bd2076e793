"""Rules about numbers and nodes that are the script's own, or written down, and not the rank's."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..counts import starts
from ..script import Script
from ..step import JobStep
from ..words import Word
from .ranks import sets_own_rank
from .rendezvous import OF_ADDRESS
from .rule import Places, rule

REDIRECTED = re.compile(r"\d?&?>>?&?\s*\S+")


LOCAL = ("localhost", "127.0.0.1", "0.0.0.0")  # noqa: S104  nothing is bound
# A node's name or address; names of placeholders, such as HOST, have capitals.
NODE = re.compile(r"[a-z][a-z0-9-]*\d[a-z0-9.-]*|\d+(?:\.\d+){3}")


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
    """Whether `rank_variables` finds it: the number of a node, or of a rank."""
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
def hosts_fixed(script: Script) -> Places:
    if script.job.has("nodelist") or not script.job.scheduler:
        return
    for word in _addresses(script):
        if NODE.fullmatch(word.known or "") and word.text not in LOCAL:
            what = f"{word.text}: a node that the job need not get"
            yield word.line, what, "the first node's name: scontrol show hostnames | head -n 1"
    for step in script.steps:
        for layer in (layer for layer in step.layers if layer.kind == "starter"):
            names = ("nodelist",) if layer.name == "srun" else ("H", "host", "hosts")
            for word in layer.values(*names):
                nodes = {part.partition(":")[0] for part in (word.known or "").split(",")} - {""}
                if nodes - {*LOCAL}:
                    what = f"{word.text}: nodes that the job need not get"
                    yield word.line, what, "leave it out, or take them from scontrol show hostnames"


def _addresses(script: Script) -> Iterator[Word]:
    """Yield where ranks are to meet, without the port."""
    yield from script.values("MASTER_ADDR")
    for step in script.steps:
        yield from (word.split(":")[0] for word in step.agent.values(*OF_ADDRESS))
