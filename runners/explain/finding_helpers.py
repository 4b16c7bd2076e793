"""Helpers of the signatures: findings, and parts of commands."""

from __future__ import annotations

import re
from collections.abc import Iterable
from shlex import quote

from ..core.remedy import Remedy, advice, change, command, together
from ..jobs.logs import exit_code as exit_code_of
from ..settings import trainers
from .explanation import Certainty, Explanation
from .facts import Facts, Line

AGAIN = change()  # as a fix: the same command once more
FETCH = advice("download it here, where there is a network, and bind it: --data FOLDER")
# Words of an error or an address, and what `runner data fetch` calls that dataset
DATASETS = {r"fashion-?mnist": "fashion-mnist", "mnist": "mnist", r"cifar-?10": "cifar10-python"}
PLACE = re.compile(r'^(?:\[rank\d+\]: )?\s*File "(?P<file>[^"]+)", line (?P<line>\d+)')
# Files that the user did not write: those of packages, of Python, and of the shim,
# programs such as bin/torchrun, and what TensorFlow makes of a @tf.function
OTHERS = re.compile(
    r"/(?:site|dist)-packages/|/lib/python3[.\d]*/|/code/(?:injob|recipes)/|^<|/bin/[^/]+$"
    r"|/__autograph_generated_file|\.pyx$"
)
RUN_BY = {"podman": ("run", "--rm"), "podman-hpc": ("run", "--rm"), "shifter": ("--image",)}
EDITOR = "${EDITOR:-vi}"
# What Python prints between an error and the one that came of it
CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
ERROR = re.compile(r"[\w.]*(?:Error|Exception)\b")
ITSELF = "the rank's own last error reports it"
GUESSED = "this is its last line that looks like an error"


def finding(
    cause: str, evidence: Iterable[object], fix: Remedy, certainty: Certainty, because: str
) -> Explanation:
    """Return what a signature makes of the facts."""
    return Explanation("", cause, tuple(map(str, evidence)), fix, certainty, because)


def certain(
    facts: Facts, cause: str, fix: Remedy, *evidence: object, because: str = ITSELF
) -> Explanation:
    """Return what is known for sure; the record of the first rank to fail is evidence too."""
    sure = Certainty.CERTAIN
    if because.startswith(ITSELF):
        sure, because = as_sure_as_told(facts, sure, because)
    return finding(cause, (*record_of(facts), *evidence), fix, sure, because)


def as_sure_as_told(facts: Facts, sure: Certainty, because: str) -> tuple[Certainty, str]:
    """Return how sure it is, and why: less where the rank did not say itself why it ended.

    Python ends with 1 after an error; a program that handled the error and then ends with another
    code may have had others.
    """
    record = facts.record
    if record is None or not record.guessed or sure != Certainty.CERTAIN:
        return sure, because
    sure = Certainty.LIKELY if record.exit_code == 1 else Certainty.UNSURE
    return sure, f"the rank exited without an error message, and {GUESSED}"


def likely(facts: Facts, cause: str, fix: Remedy, *evidence: object, because: str) -> Explanation:
    return finding(cause, (*record_of(facts), *evidence), fix, Certainty.LIKELY, because)


def record_of(facts: Facts) -> tuple[str, ...]:
    """Return the record of the first rank to fail, as evidence."""
    return facts.first.evidence if facts.first else ()


def dataset_in(text: str) -> str:
    """Return the name for `runner data fetch` of the dataset that a text names, or ""."""
    names = (name for words, name in DATASETS.items() if re.search(rf"(?i)\b{words}\b", text))
    return next(names, "")


def signal_of(facts: Facts) -> int:
    """Return the signal that ended the first rank to fail, 0 for none."""
    if facts.record:
        return facts.record.signal
    code = exit_code_of(facts.first.how) if facts.first else None
    return max(0, (code or 0) - 128)


def who(facts: Facts) -> str:
    """Return the first rank to fail as `rank R@HOST`, of several `each of the 4 ranks`."""
    first = facts.first
    if first is None or first.rank is None:
        return "the job"
    return f"each of the {first.alike} ranks" if first.alike > 1 else first.name


def host(facts: Facts) -> str:
    """Return the node of the first rank to fail, `NODE` when none is known."""
    return facts.first.host if facts.first else "NODE"


def place(facts: Facts) -> tuple[Line, str, int] | None:
    """Return the user's own line that was being run at the end: its evidence, file and number."""
    worker = facts.first.worker if facts.first else None
    label = "" if worker is None else f"[rank{worker}]: "
    theirs = [line for line in facts.log.last if line.text.startswith(label)]
    for line in reversed(theirs or facts.log.last):
        match = PLACE.match(line.text)
        if match and not OTHERS.search(match["file"]):
            return line, match["file"], int(match["line"])
    return None


def own_code(facts: Facts) -> tuple[Line, ...]:
    """Return the user's own line that was being run, and the code below it.

    Where the record has the traceback, that is shown as a whole.
    """
    own = None if facts.record and facts.record.traceback else place(facts)
    last = facts.log.last
    return last[last.index(own[0]) :][:2] if own else ()


def before(facts: Facts) -> list[Line]:
    """Return the errors from which the first rank's last one came: Python shows them before it."""
    last = facts.log.last
    ends = [at for at, line in enumerate(last) if line.text.startswith(CHAINED)]
    return [line for at in ends for line in last[max(0, at - 3) : at] if ERROR.match(line.text)]


def edit(facts: Facts, _: object = None) -> Remedy:
    """Return the fix of a fault in the user's own code: open it there, then launch again."""
    where = place(facts)
    if not where:
        return logs(facts)
    return change(first=f"{EDITOR} +{where[2]} {quote(where[1])}")


def without_own_address(facts: Facts) -> Remedy:
    """Return the launch without the user's own MASTER_*: the shim knows an address and a port."""
    return _without(facts, "MASTER_") or edit(facts)


def without_own_tf_config(facts: Facts) -> Remedy:
    """Return the launch with the TF_CONFIG that the shim makes, and without the user's own."""
    return together([change(tf_config=True), _without(facts, "TF_CONFIG=") or change()])


def _without(facts: Facts, beginning: str) -> Remedy | None:
    """Return the launch without the variables that begin so; None where none was given."""
    given = [str(value) for value in facts.job.typed.values("env")]
    kept = [each for each in given if not each.startswith(beginning)]
    return change(env=kept, leave_out=["env"]) if kept != given else None


def logs(facts: Facts, _: object = None) -> Remedy:
    """Return the command that shows what the first rank to fail said."""
    return logs_of(facts, facts.first.rank if facts.first else None)


def all_logs(facts: Facts) -> Remedy:
    """Return the command that shows what all ranks said, where another one is to be looked at."""
    return command("runner", "logs", "--all", facts.job.id)


def logs_of(facts: Facts, rank: int | None) -> Remedy:
    """Return the command that shows what a rank said, or rank 0 where it is not known which."""
    which = [] if rank is None else ["--rank", rank]
    return command("runner", "logs", *which, facts.job.id)


def since(facts: Facts) -> str:
    """Return what is saved of a job, as the end of a sentence."""
    return "" if facts.saved is None else f"; the checkpoint of step {facts.saved} is complete"


def resume(facts: Facts) -> dict[str, object]:
    """Return the arguments to resume from the newest checkpoint, none where there is none."""
    return {} if facts.saved is None else {"--resume": facts.paths.root}


def saves(facts: Facts) -> bool:
    """Whether the trainer is known to save checkpoints from which it resumes."""
    return facts.saved is not None or trainers.source(facts.job.typed.trainer) is not None


def go_on(facts: Facts) -> Remedy:
    """Return how to launch it again: from its newest checkpoint, if there is one."""
    return change(arguments=resume(facts))


def exclude(facts: Facts) -> Remedy | None:
    """Return the launch without the node of the first rank to fail."""
    return change(exclude=facts.first.host) if facts.first else None


def on_node(facts: Facts, *words: object) -> Remedy:
    return command("srun", "-w", host(facts), *words)


def in_image(facts: Facts, *words: object) -> Remedy:
    """Return the command that runs another one in the image, or in the environment on the host."""
    runtime = facts.plan.launching.runtime if facts.plan.launching else "apptainer"
    if runtime == "none":
        first, *rest = map(str, words)
        return command(f"{facts.image}/bin/python" if first == "python3" else first, *rest)
    if runtime == "pyxis":
        return command("srun", f"--container-image={facts.image}", *words)
    return command(runtime, *RUN_BY.get(runtime, ("exec",)), facts.image, *words)


def doctor(facts: Facts, *nodes: object) -> Remedy:
    """Return the command that looks at nodes from within a job; `nodes` are options of Slurm's."""
    return command("runner", "doctor", "--job", *nodes, "--image", facts.image)


def smaller_batch(facts: Facts) -> Remedy | None:
    """Return the fix that halves the batch size that was given; None when none was."""
    given = facts.job.typed.argument("--batch-size")
    if not given.isdigit():
        return None
    return change(arguments={"--batch-size": max(1, int(given) // 2)})
