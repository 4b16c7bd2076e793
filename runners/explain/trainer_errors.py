"""The trainer itself: its arguments, its numbers, what it downloads."""

from __future__ import annotations

import re

from ..contract.rank_command import is_python
from ..core.remedy import Remedy, advice, change
from .explanation import Explanation, Precedence, Signature
from .facts import Facts, Line
from .findings import certain, dataset_in, likely, own_code, who
from .fixes import FETCH, in_image, logs

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
    return next((line for line in reversed(facts.log.last) if USAGE.search(line.text)), None)


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
    Signature("bad-argument", bad_argument, Precedence.TRAINER + 10),
    Signature("no-network", network, Precedence.TRAINER + 20),
)
