"""The trainer itself: its arguments, its numbers, what its ranks do unlike each other."""

from __future__ import annotations

import re

from ..core.remedy import Remedy, change, command
from .explanation import Finding, Signature
from .facts import Facts, Line
from .finding_helpers import FETCH, certain, edit, host, likely, logs, place, smaller_batch, who

DIVERGED = re.compile(r"training diverged: (?P<how>.*)")
NAN = re.compile(r"\bnan\b|\bNaN\b|non-finite|not finite")
# argparse's, in the packaged trainers and in others
ARGUMENT = re.compile(
    r"error: ((?:on rank [^:]+: )?(?:unrecognized arguments|argument \S+: |the following arguments "
    r"are required|invalid choice|--[\w-]+ ).*)"
)
USAGE = re.compile(r"^\S+: error: (.*)")
SHAPES = re.compile(r"Mismatched \w+ .*")
DUPLICATE = re.compile(r"Duplicate tensor name (\S+)|with the same name as another tensor")
SYNTAX = re.compile(r"(SyntaxError|IndentationError|TabError): (.*)")
PORT = re.compile(r"Address already in use|EADDRINUSE")
MEMORY = re.compile(r"MemoryError|can't allocate memory|Cannot allocate memory|bad_alloc")
NETWORK = re.compile(
    r"Temporary failure in name resolution|Name or service not known|Network is unreachable|"
    r"No route to host|Failed to establish a new connection|LocalEntryNotFoundError"
)
OTHERS_WORDS = "Horovod compares what the ranks send, and says so"


def diverged(facts: Facts) -> Finding | None:
    """The loss is no longer a number."""
    found = DIVERGED.search(facts.error)
    if found:
        rate = facts.job.typed.argument("--base-lr")
        fix = change(arguments={"--base-lr": _lower(rate)})
        return certain(facts, f"training diverged: {found['how']}", fix)
    if facts.record is None or facts.record.exit_code != 1 or not NAN.search(facts.error):
        return None
    cause = f"{who(facts)} met a number that is none (NaN): {facts.error}"
    return likely(facts, cause, edit(facts), because="the rank's last error names it")


def _lower(rate: str) -> str:
    """Return a tenth of a learning rate, and no more than one hundredth."""
    try:
        return f"{min(float(rate) / 10, 0.01):g}"
    except ValueError:
        return "0.01"


def bad_argument(facts: Facts) -> Finding | None:
    """The trainer does not take one of its arguments."""
    found = ARGUMENT.search(facts.error)
    line = None if found else _usage(facts)
    # The rank's own code: the job's is 143 where srun ended another rank before it failed alike.
    if facts.record is None or facts.record.exit_code != 2 or not (found or line):
        return None
    said = found[1] if found else line.text.partition("error: ")[2] if line else ""
    cause = f"the trainer does not take its arguments: {said}"
    return certain(facts, cause, _help(facts), *([line] if line else []))


def _usage(facts: Facts) -> Line | None:
    """Return argparse's line in a trainer of the user's, whose record has the exit code alone."""
    if facts.record is None or not facts.record.silent:
        return None
    return next((one for one in reversed(facts.log.last) if USAGE.search(one.text)), None)


def _help(facts: Facts) -> Remedy:
    """Return the command that shows the trainer's own help."""
    trainer = facts.job.typed.trainer
    program = [trainer] if trainer.endswith(".py") else ["-m", f"recipes.{trainer}"]
    return command("apptainer", "exec", facts.image, "python3", *program, "--help")


def ranks_differ(facts: Facts) -> Finding | None:
    """The ranks called Horovod with tensors that do not match."""
    found = SHAPES.search(facts.error)
    if not found:
        return None
    cause = f"the ranks gave Horovod unlike tensors under one name: {found[0]}"
    return certain(facts, cause, edit(facts), *_own(facts), because=OTHERS_WORDS)


def _own(facts: Facts) -> tuple[Line, ...]:
    """Return the user's own line that was being run, unless the whole traceback is shown."""
    found = None if facts.record and facts.record.traceback else place(facts)
    return (found[0],) if found else ()


def duplicate_name(facts: Facts) -> Finding | None:
    """A rank began an operation while another of the same name was going on."""
    found = DUPLICATE.search(facts.error)
    if not found:
        return None
    name = f"the name {found[1]}" if found[1] else "one name"
    cause = f"{who(facts)} used {name} for two operations at once"
    return certain(facts, cause, edit(facts), *_own(facts), because="Horovod says so")


def syntax(facts: Facts) -> Finding | None:
    """The trainer's file is no Python."""
    found = SYNTAX.search(facts.error)
    if not found:
        return None
    return certain(facts, f"Python cannot read the trainer: {found[2]}", edit(facts), *_own(facts))


def port_taken(facts: Facts) -> Finding | None:
    """A program of the trainer's listens at a port that another has."""
    if not PORT.search(facts.error):
        return None
    cause = (
        f"{who(facts)} listens at a port that is taken: by another rank on its node, as when each "
        "starts the same server, or by another job"
    )
    return certain(facts, cause, command("srun", "-w", host(facts), "ss", "-ltnp"), *_own(facts))


def memory(facts: Facts) -> Finding | None:
    """An allocation was refused; that is told apart from the kernel's killing a rank."""
    if not MEMORY.search(facts.error) or "CUDA" in facts.error:
        return None
    cause = f"{who(facts)} asked for more memory than it could have: {facts.error}"
    return certain(facts, cause, smaller_batch(facts) or edit(facts), *_own(facts))


def network(facts: Facts) -> Finding | None:
    """The trainer wants to download, and compute nodes often have no way out."""
    if not NETWORK.search(facts.error):
        return None
    cause = f"{who(facts)} wants to reach another machine, and the node has no way there"
    fix = FETCH if _downloads(facts) else logs(facts)
    because = "its last error is the network's; on most sites compute nodes reach nothing outside"
    return likely(facts, cause, fix, *_own(facts), because=because)


def _downloads(facts: Facts) -> bool:
    return any(re.search(r"url|http|download|hub", line.text, re.I) for line in facts.log.last)


SIGNATURES = (
    Signature("training-diverged", diverged),
    Signature("bad-argument", bad_argument),
    Signature("ranks-differ", ranks_differ),
    Signature("duplicate-name", duplicate_name),
    Signature("syntax-error", syntax),
    Signature("port-taken", port_taken),
    Signature("memory-refused", memory),
    Signature("no-network", network),
)
