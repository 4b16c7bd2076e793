"""Rules about addresses and ports."""

from __future__ import annotations

from collections.abc import Iterator

from ..content import Command
from ..script import Script
from ..words import Word
from .rule import Places, rule

OF_ADDRESS = ("master-addr", "rdzv-endpoint", "main-process-ip")
OF_PORT = ("master-port", "main-process-port")
FREE = "a port that the job reserves: runner launch does, or Slurm's --resv-ports"


def _address_words(script: Script) -> Iterator[Word]:
    yield from (each.value for each in script.content.assignments if each.name == "MASTER_ADDR")
    for step in script.steps:
        yield from step.agent.values(*OF_ADDRESS)
        yield from (word for word in step.program if word.unknown)
        yield from (value for name, value in step.env.items() if name == "MASTER_ADDR")


def _commands(script: Script, word: Word) -> Iterator[Command]:
    """Yield the commands of $(...) that a word's unknown pieces are made of."""
    lines = {piece.line for piece in word.unknown if "hostname" in piece.source}
    commands = (command for command in script.commands if command.line in lines)
    return (command for command in commands if command.within == "substitution")


@rule("hostname-address")
def hostname_address(script: Script) -> Places:
    words = _address_words(script) if script.job.nodes != 1 else ()
    for command in (command for word in words for command in _commands(script, word)):
        texts = [each.text for each in command.words]
        names = [n for n, text in enumerate(texts) if text.rpartition("/")[2] == "hostname"]
        if names and {"-i", "--ip-address"} & set(texts[names[0] :]):
            what = "hostname --ip-address is 127.0.1.1 on Debian and Ubuntu nodes"
            yield command.line, what, "the node's name: scontrol show hostnames | head -n 1"


def _ports(script: Script) -> list[Word]:
    """Return the ports of process groups, none where a node's GPUs or memory are all this job's."""
    job = script.job
    of_cscs = any(step.starter.has("environment") for step in script.steps)  # whole nodes
    if of_cscs or job.exclusive or (job.gpus_per_node or 0) >= 8 or job.get("mem") in ("0", "0G"):
        return []
    ports = [each.value for each in script.content.assignments if each.name == "MASTER_PORT"]
    for step in script.steps:
        ports += [value for name, value in step.env.items() if name == "MASTER_PORT"]
        if not step.agent.has("standalone"):
            ends = [word.split(":")[1:] for word in step.agent.values("rdzv-endpoint")]
            ports += [*step.agent.values(*OF_PORT), *(end[-1] for end in ends if end)]
    first = {port.text: port for port in reversed(ports)}
    return list(reversed(first.values()))


@rule("port-fixed")
def port_fixed(script: Script) -> Places:
    for port in _ports(script):
        if port.number:
            what = f"port {port.text} is the same in each job: two on one node collide"
            yield port.line, what, FREE


@rule("port-collides")
def port_collides(script: Script) -> Places:
    for port in _ports(script):
        if any(piece.digits for piece in port.unknown):
            what = f"{port.text} may be in use, by another job with these last digits for example"
            yield port.line, what, FREE


@rule("octal")
def octal(script: Script) -> Places:
    for line in script.content.octal:
        what = "the last digits of the job's number are octal where they begin with 0, as 0089 does"
        yield line, what, "10#${SLURM_JOB_ID: -4}, or SLURM_JOB_ID % 10000"
