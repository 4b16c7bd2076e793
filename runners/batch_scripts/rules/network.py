"""Rules about addresses and ports."""

from __future__ import annotations

from collections.abc import Iterator

from ..content import Command
from ..script import Script
from ..steps import Step
from ..words import Word
from .rule import Places, rule

OF_ADDRESS = ("master-addr", "rdzv-endpoint", "main-process-ip")
OF_PORT = ("master-port", "main-process-port")
FREE = "a port that the job reserves: runner launch does, or Slurm's --resv-ports"


def _address_words(script: Script) -> Iterator[Word]:
    """Yield what is used as an address, or names a host that is."""
    for assignment in script.content.assignments:
        if assignment.name == "MASTER_ADDR":
            yield assignment.value
    for step in script.steps:
        agent = step.layer("agent")
        yield from (o.value for o in agent.options.all(*OF_ADDRESS) if o.value) if agent else ()
        yield from (word for word in step.program if word.unknown)
        yield from (value for name, value in step.env.items() if name == "MASTER_ADDR")


def _commands(script: Script, word: Word) -> Iterator[Command]:
    """Yield the commands of $(...) that a word's unknown pieces are made of."""
    lines = {piece.line for piece in word.unknown if "hostname" in piece.source}
    for command in script.commands:
        if command.within == "substitution" and command.line in lines:
            yield command


@rule("hostname-address")
def hostname_address(script: Script) -> Places:
    if script.job.nodes == 1:
        return
    for word in _address_words(script):
        for command in _commands(script, word):
            texts = [each.text for each in command.words]
            names = [n for n, text in enumerate(texts) if text.rpartition("/")[2] == "hostname"]
            if names and {"-i", "--ip-address"} & set(texts[names[0] :]):
                what = "hostname --ip-address is 127.0.1.1 on Debian and Ubuntu nodes"
                yield command.line, what, "the node's name: scontrol show hostnames | head -n 1"


@rule("own-address")
def own_address(script: Script) -> Places:
    for step in script.steps:
        if (script.job.nodes or 1) == 1 or not step.layer("starter") or not step.layer("shell"):
            continue
        inside = [command for command in step.inner if command.within == "substitution"]
        lines = {command.line for command in inside if command.name == "hostname"}
        for word in _of_rank(step):
            if any(p.line in lines and "hostname" in p.source for p in word.unknown):
                what = "each rank evaluates $(hostname) on its own node"
                yield word.line, what, "set MASTER_ADDR before srun"


def _of_rank(step: Step) -> Iterator[Word]:
    outer = {**step.command.exports, **step.command.given}
    if step.env.get("MASTER_ADDR") is not None and "MASTER_ADDR" not in outer:
        yield step.env["MASTER_ADDR"]
    agent = step.layer("agent")
    if agent is not None and step.place("shell") < step.place("agent"):
        yield from (o.value for o in agent.options.all(*OF_ADDRESS) if o.value)


def _alone(script: Script) -> bool:
    """Whether no other training is on the nodes: all of a node's GPUs or memory are this job's."""
    job = script.job
    return job.exclusive or (job.gpus_per_node or 0) >= 8 or job.get("mem") in ("0", "0G")


def ports(script: Script) -> Iterator[Word]:
    """Yield the ports of the script's process groups."""
    for assignment in script.content.assignments:
        if assignment.name == "MASTER_PORT":
            yield assignment.value
    for step in script.steps:
        if (port := step.env.get("MASTER_PORT")) is not None:
            yield port
        agent = step.layer("agent")
        if agent is None or agent.options.has("standalone"):
            continue
        yield from (o.value for o in agent.options.all(*OF_PORT) if o.value)
        for option in agent.options.all("rdzv-endpoint"):
            parts = option.value.split(":") if option.value else []
            yield from parts[-1:] if len(parts) > 1 else ()


@rule("port-fixed")
def port_fixed(script: Script) -> Places:
    told = set[str]()
    for port in () if _alone(script) else ports(script):
        if port.number and port.text not in told:
            told.add(port.text)
            what = f"port {port.text} is the same in each job: two on one node collide"
            yield port.line, what, FREE


@rule("port-collides")
def port_collides(script: Script) -> Places:
    told = set[str]()
    for port in () if _alone(script) else ports(script):
        if port.text in told:
            continue
        told.add(port.text)
        if any(piece.digits for piece in port.unknown):
            what = f"{port.text} may be in use, by another job with these last digits for example"
            yield port.line, what, FREE


@rule("octal")
def octal(script: Script) -> Places:
    for line in script.content.octal:
        what = "the last digits of the job's number are octal where they begin with 0, as 0089 does"
        yield line, what, "10#${SLURM_JOB_ID: -4}, or SLURM_JOB_ID % 10000"


RULES = (hostname_address, own_address, port_fixed, port_collides, octal)
