"""Rules about where ranks meet: addresses, ports, and names of nodes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ..script import Script
from ..words import PORT, Word, literal
from .rule import Places, rule

OF_ADDRESS = ("master-addr", "rdzv-endpoint", "main-process-ip")
OF_PORT = ("master-port", "main-process-port")
LOCAL = ("localhost", "127.0.0.1", "0.0.0.0")  # noqa: S104  nothing is bound
# A node's name or address; names of placeholders, such as HOST, have capitals.
NODE = re.compile(r"[a-z][a-z0-9-]*\d[a-z0-9.-]*|\d+(?:\.\d+){3}")
FREE = "a port that the job reserves: runner launch does, or Slurm's --resv-ports"


def _address_words(script: Script) -> Iterator[Word]:
    yield from script.values("MASTER_ADDR")
    for step in script.steps:
        yield from step.agent.values(*OF_ADDRESS)
        yield from (word for word in step.program if word.unknown)


def _made_on(script: Script, words: Iterable[Word]) -> set[int]:
    """Return the lines of unknown pieces, and of the variables that these are made of."""
    lines, pieces = set[int](), [piece for word in words for piece in word.unknown]
    while pieces:
        piece = pieces.pop()
        if piece.line not in lines:
            names = re.findall(r"\w+", piece.source)
            values = (
                assignment.value
                for assignment in script.content.assignments
                if assignment.name in names
            )
            pieces += [piece for value in values for piece in value.unknown]
        lines.add(piece.line)
    return lines


def _loopbacks(script: Script) -> Places:
    """Yield addresses by which each of several nodes looks for rank 0 on itself."""
    for step in script.steps:
        nodes, agent = step.starter.count("nodes") or script.job.nodes, step.agent
        on_one_node = (
            step.starter.count("ntasks") == 1 or agent.count("nnodes", "num-machines") == 1
        )
        ends = [word.split(":")[0] for word in agent.values(*OF_ADDRESS)]
        if not ends:
            ends.append({**step.variables, **step.env}.get("MASTER_ADDR", literal("")))
        for end in ends if (nodes or 1) > 1 and not on_one_node and step.starter else ():
            if end.known in ("localhost", "127.0.0.1"):
                what = f"{end.text}: each of {nodes} nodes looks for rank 0 on itself"
                yield end.line, what, "the first node's name: scontrol show hostnames | head -n 1"


@rule
def hostname_address(script: Script) -> Places:
    yield from _loopbacks(script)
    lines = _made_on(script, _address_words(script)) if script.job.nodes != 1 else ()
    printing = (command for command in script.commands if command.within == "substitution")
    for command in (printed for printed in printing if printed.line in lines):
        texts = [word.text for word in command.words]
        names = [n for n, text in enumerate(texts) if text.rpartition("/")[2] == "hostname"]
        if names and {"-i", "--ip-address"} & set(texts[names[0] :]):
            what = "hostname --ip-address is 127.0.1.1 on Debian and Ubuntu nodes"
            yield command.line, what, "the node's name: scontrol show hostnames | head -n 1"


def _ports(script: Script) -> list[Word]:
    """Return the ports of process groups, none where a node's GPUs or memory are all this job's."""
    job = script.job
    of_cscs = any(step.starter.has("environment") for step in script.steps)  # whole nodes
    if of_cscs or job.exclusive or (job.gpus_per_node or 0) >= 8 or job.text("mem") in ("0", "0G"):
        return []
    ports = script.values("MASTER_PORT")
    for step in script.steps:
        if not step.agent.has("standalone"):
            ends = [word.split(":")[1:] for word in step.agent.values("rdzv-endpoint")]
            ports += [*step.agent.values(*OF_PORT), *(end[-1] for end in ends if end)]
    first = {port.text: port for port in reversed(ports) if port.text != PORT}
    return list(reversed(first.values()))


@rule
def port_fixed(script: Script) -> Places:
    for port in _ports(script):
        if port.number:
            what = f"port {port.text} is the same in each job: two on one node collide"
            yield port.line, what, FREE


@rule
def port_collides(script: Script) -> Places:
    for port in _ports(script):
        if any(piece.digits for piece in port.unknown):
            what = f"{port.text} may be in use, by another job with these last digits for example"
            yield port.line, what, FREE


@rule
def octal(script: Script) -> Places:
    for line in script.content.octal:
        what = "the last digits of the job's number are octal where they begin with 0, as 0089 does"
        yield line, what, "10#${SLURM_JOB_ID: -4}, or SLURM_JOB_ID % 10000"


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
