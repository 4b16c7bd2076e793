"""What several signatures share: a finding in few words, and pieces of commands."""

from __future__ import annotations

import re
from shlex import quote

from ..core.remedy import LEAVE_OUT
from ..jobs import srun_messages
from .explanation import Certainty, Finding
from .facts import Facts, Line

AGAIN = LEAVE_OUT  # as a fix: the same command once more
PLACE = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)')
# Files that the user did not write: those of packages, of Python, and of the shim
OTHERS = re.compile(r"/(?:site|dist)-packages/|/lib/python3[.\d]*/|/code/(?:injob|recipes)/|^<")
# What Python prints between an error and the one that came of it
CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
ERROR = re.compile(r"[\w.]*(?:Error|Exception)\b")
ITSELF = "the rank's own last error says so"
GUESSED = "this is its last line that looks like an error"


def certain(
    facts: Facts, cause: str, fix: str, *evidence: object, because: str = ITSELF
) -> Finding:
    """Return what is known for sure; the record of the first rank to fail is evidence too.

    Where the rank did not say itself why it ended it is not sure: Python ends with 1 after an
    error, and a program that handled the error and then ends with another code may have had others.
    """
    record = facts.record
    if record is None or not record.guessed or because != ITSELF:
        return Finding(cause, (*_record(facts), *evidence), fix, Certainty.CERTAIN, because)
    sure = Certainty.LIKELY if record.exit_code == 1 else Certainty.UNSURE
    because = f"the rank ended without a word, and {GUESSED}"
    return Finding(cause, (*_record(facts), *evidence), fix, sure, because)


def likely(facts: Facts, cause: str, fix: str, *evidence: object, because: str) -> Finding:
    """Return what most probably is so."""
    return Finding(cause, (*_record(facts), *evidence), fix, Certainty.LIKELY, because)


def _record(facts: Facts) -> tuple[str, ...]:
    return facts.first.evidence if facts.first else ()


def signal_of(facts: Facts) -> int:
    """Return the signal that ended the first rank to fail, 0 for none."""
    if facts.record:
        return facts.record.signal
    code = srun_messages.code(facts.first.how) if facts.first else None
    return max(0, (code or 0) - 128)


def who(facts: Facts) -> str:
    """Return the first rank to fail as `rank R@HOST`, several as `all 4 ranks`, or `the job`."""
    return facts.first.name if facts.first and facts.first.rank is not None else "the job"


def host(facts: Facts) -> str:
    """Return the node of the first rank to fail, `NODE` when none is known."""
    return facts.first.host if facts.first else "NODE"


def place(facts: Facts) -> tuple[Line, str, int] | None:
    """Return the user's own line that was being run at the end: its evidence, file and number."""
    for line in reversed(facts.log.last):
        found = PLACE.match(line.text)
        if found and not OTHERS.search(found["file"]):
            return line, found["file"], int(found["line"])
    return None


def before(facts: Facts) -> list[Line]:
    """Return the errors from which the first rank's last one came: Python shows them before it."""
    last = facts.log.last
    ends = [at for at, line in enumerate(last) if line.text.startswith(CHAINED)]
    return [line for at in ends for line in last[max(0, at - 3) : at] if ERROR.match(line.text)]


def edit(facts: Facts) -> str:
    """Return the fix of a fault in the user's own code: open it there, then launch again."""
    found = place(facts)
    return f"${{EDITOR:-vi}} +{found[2]} {quote(found[1])} && {AGAIN}" if found else logs(facts)


def logs(facts: Facts) -> str:
    """Return the command that shows what the first rank to fail said."""
    known = facts.first is not None and facts.first.rank is not None
    rank = f"--rank {facts.first.rank} " if known and facts.first else ""
    return f"runner logs {rank}{facts.job.id}"


def doctor(facts: Facts, nodes: str) -> str:
    """Return the command that looks at nodes from within a job; `nodes` are options of Slurm's."""
    return f"runner doctor --job {nodes} --image {quote(facts.image)}"


def argument(facts: Facts, name: str) -> str:
    """Return the value of an option of the launch, or of its trainer; "" when it was not given."""
    return next(iter(arguments(facts, name)), "")


def arguments(facts: Facts, *names: str) -> list[str]:
    """Return the values of an option that can be given more than once, by any of its names."""
    words = list(facts.job.words)
    found = []
    for word, after in zip(words, [*words[1:], ""]):
        name, equals, value = word.partition("=")
        if name in names:
            found.append(value if equals else after)
        elif word[:2] in names:  # -BSRC:DST
            found.append(word[2:])
    return found


def smaller_batch(facts: Facts) -> str:
    """Return the fix that halves the batch size that was given; "" when none was."""
    given = argument(facts, "--batch-size")
    return f"-- --batch-size {max(1, int(given) // 2)}" if given.isdigit() else ""
