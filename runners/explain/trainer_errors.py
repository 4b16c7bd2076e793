"""The trainer itself: its arguments, its numbers, what it downloads."""

from __future__ import annotations

import re

from ..contract.rank_command import is_python
from ..core.remedy import Remedy, advice, change
from .explanation import Explanation, Precedence, Signature
from .facts import Facts, Line
from .findings import certain, dataset_in, likely, own_code, who
from .fixes import FETCH, edit, in_image, logs

NAN = re.compile(r"\bnan\b|\bNaN\b|non-finite|not finite")
# argparse's, in the packaged trainers and in others
ARGUMENT = re.compile(
    r"error: ((?:on rank [^:]+: )?(?:unrecognized arguments|argument \S+: |the following arguments "
    r"are required|invalid choice|--[\w-]+ ).*)"
)
USAGE = re.compile(r"^(?!slurmstepd|srun)\S+: error: (.*)")
DOWNLOAD = re.compile("url|http|download|hub", re.IGNORECASE)
NAME = "Temporary failure in name resolution|Name or service not known"
NETWORK = re.compile(
    rf"{NAME}|Network is unreachable|No route to host|"
    "Failed to establish a new connection|LocalEntryNotFoundError"
)

# Keras 3 looks in KERAS_HOME too, Keras 2 does not.
KERAS = advice(
    "load it once here, where there is a network: Keras keeps it in ~/.keras, which the job sees"
)


def not_a_number(facts: Facts) -> Explanation | None:
    """The loss is no longer a number."""
    if facts.record is None or facts.record.exit_code != 1 or not NAN.search(facts.error):
        return None
    cause = f"{who(facts)} got NaN (not a number): {facts.error}"
    return likely(facts, cause, edit(facts), because="the rank's last error names it")


def diverged(facts: Facts) -> Explanation | None:
    match = re.search("training diverged: .*", facts.error)
    return certain(facts, match[0], _lower_rate(facts)) if match else None


def _lower_rate(facts: Facts) -> Remedy:
    """Return the launch with a tenth of the learning rate, and no more than one hundredth."""
    try:
        rate = min(float(facts.argument("--base-lr")) / 10, 0.01)
    except ValueError:
        rate = 0.01
    return change(arguments={"--base-lr": f"{rate:g}"})


def bad_argument(facts: Facts) -> Explanation | None:
    match = ARGUMENT.search(facts.error)
    line = None if match else _usage(facts)
    # The rank's own code: the job's is 143 where srun ended another rank before it failed alike.
    if facts.record is None or facts.record.exit_code != 2 or not (match or line):
        return None
    said = match[1] if match else line.text.partition("error: ")[2] if line else ""
    cause = f"the trainer rejects its arguments: {said}"
    return certain(facts, cause, _help(facts), *([line] if line else []))


def _usage(facts: Facts) -> Line | None:
    """Return argparse's line in a trainer of the user's, whose record has the exit code alone."""
    if facts.record is None or not facts.record.silent:
        return None
    return next((one for one in reversed(facts.log.last) if USAGE.search(one.text)), None)


def _help(facts: Facts) -> Remedy:
    command = facts.plan.command
    if not command or not is_python(command):
        return logs(facts)
    return in_image(facts, "python3", *command[: 1 + (command[0] == "-m")], "--help")


def network(facts: Facts) -> Explanation | None:
    """The trainer wants to download, and compute nodes often have no way out."""
    tried = facts.error
    if facts.record and tried.startswith("RuntimeError: Error downloading"):
        tried = "\n".join(facts.record.traceback)  # torchvision's: the reason is in the lines after
    if not NETWORK.search(tried):
        return None
    lost = "does not know its name" if re.search(NAME, tried) else "has no route there"
    cause = f"{who(facts)} tried to reach another machine, and the node {lost}"
    because = "its last error is the network's; on most sites compute nodes have no internet access"
    name = dataset_in(tried) if DOWNLOAD.search(tried) else ""
    if facts.error.startswith("Exception: URL fetch failure on"):
        fix = KERAS
    elif name:
        fix = change(data=name, first=f"runner data fetch {name}")
        because += "; the data is then in /data, which the script has to be told"
    else:
        fix = FETCH if any(DOWNLOAD.search(line.text) for line in facts.log.last) else logs(facts)
    return likely(facts, cause, fix, *own_code(facts), because=because)


SIGNATURES = (
    Signature("training-diverged", diverged, Precedence.TRAINER),
    Signature("training-diverged", not_a_number, Precedence.TRAINER),
    Signature("bad-argument", bad_argument, Precedence.TRAINER),
    Signature("no-network", network, Precedence.TRAINER),
)
