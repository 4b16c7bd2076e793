"""Fixes that need the facts of the run: launches with changes, commands that show more."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from shlex import quote

from ..core import gpus
from ..core.model import RuntimeName
from ..core.remedy import Remedy, advice, change, command, together
from .facts import Facts
from .findings import host, user_line

AGAIN = change()  # as a fix: the same command once more
FETCH = advice("download it here, where there is a network, and give its folder: --data FOLDER")
RUN_BY = {
    RuntimeName.PODMAN: ("run", "--rm"),
    RuntimeName.PODMAN_HPC: ("run", "--rm"),
    RuntimeName.SHIFTER: ("--image",),
}
EDITOR = "${EDITOR:-vi}"
LEGACY_KERAS = "TF_USE_LEGACY_KERAS"
KERAS_3 = re.compile(r"\s*(?:import|from) keras\b")


def edit(facts: Facts) -> Remedy:
    """Return the fix of a fault in the user's own code: open it there, then launch again."""
    where = user_line(facts)
    if not where:
        return logs(facts)
    return change(first=f"{EDITOR} +{where[2]} {quote(where[1])}")


def without_own_address(facts: Facts) -> Remedy:
    """Return the launch without the user's own MASTER_*: the shim knows an address and a port."""
    return _without(facts, "MASTER_*") or edit(facts)


def without_own_tf_config(facts: Facts) -> Remedy:
    """Return the launch with the TF_CONFIG that the shim makes, and without the user's own."""
    return together([change(tf_config=True), _without(facts, "TF_CONFIG") or change()])


def _without(facts: Facts, names: str) -> Remedy | None:
    """Return the launch without the variables of such names; None where none was given."""
    gone = [name for name in facts.plan.env if fnmatchcase(name, names)]
    typed = map(str, facts.job.typed.values("env"))  # the plan has no values to type again
    kept = [variable for variable in typed if variable.partition("=")[0] not in gone]
    return change(env=kept, leave_out=["env"]) if gone else None


def logs(facts: Facts) -> Remedy:
    """Return the command that shows what the first rank to fail said."""
    return logs_of(facts, facts.first.rank if facts.first else None)


def all_logs(facts: Facts) -> Remedy:
    """Return the command that shows what all ranks said, where another one is to be looked at."""
    return _whole_text(facts) or command("runner", "logs", "--all", facts.job.id)


def _whole_text(facts: Facts) -> Remedy | None:
    """Return the advice for a log alone: it may be of a job that runner did not launch."""
    return advice(f"read {facts.job.log} from its first error on") if facts.of_text else None


def logs_of(facts: Facts, rank: int | None) -> Remedy:
    """Return the command that shows what a rank said, or rank 0 where it is not known which."""
    which = [] if rank is None else ["--rank", rank]
    return _whole_text(facts) or command("runner", "logs", *which, facts.job.id)


def since(facts: Facts) -> str:
    """Return what is saved of a job, as the end of a sentence."""
    return "" if facts.saved is None else f"; the checkpoint of step {facts.saved} is complete"


def resume(facts: Facts) -> dict[str, object]:
    """Return the arguments to resume from the newest checkpoint, none where there is none."""
    return {} if facts.saved is None else {"--resume": facts.paths.root}


def saves(facts: Facts) -> bool:
    """Whether the trainer is known to save checkpoints from which it resumes."""
    return facts.saved is not None or facts.is_recipe


def go_on(facts: Facts) -> Remedy:
    """Return how to launch it again: from its newest checkpoint, if there is one."""
    return change(arguments=resume(facts))


def exclude(facts: Facts) -> Remedy | None:
    """Return the launch without the node of the first rank to fail."""
    return change(exclude=facts.first.host) if facts.first and facts.first.host else None


def on_node(facts: Facts, *words: object) -> Remedy:
    return command("srun", "-w", host(facts), *words)


def in_image(facts: Facts, *words: object) -> Remedy:
    """Return the command that runs another one in the image, or in the environment on the host."""
    launching = facts.plan.launching
    runtime = launching.runtime if launching else RuntimeName.APPTAINER
    if runtime is RuntimeName.NONE:
        first, *rest = map(str, words)
        return command(f"{facts.image_file}/bin/python" if first == "python3" else first, *rest)
    return command(runtime, *RUN_BY.get(runtime, ("exec",)), facts.image_file, *words)


def doctor(facts: Facts, *nodes: object) -> Remedy:
    """Return the command that looks at nodes from within a job; `nodes` are options of Slurm's."""
    runtime = [] if facts.has_image else ["--runtime", "none"]
    return command("runner", "doctor", "--job", *nodes, *runtime, "--image", facts.image)


def gpu_for_each_rank(facts: Facts) -> Remedy | None:
    """Return the launch that has a GPU for each rank, and no fewer ranks than were asked for.

    None where that is not known: where a rank sees its own GPU alone, or the numbers are equal.
    """
    resources = facts.resources
    ranks, wanted = resources.tasks_of_a_node, gpus.on_a_node(resources)
    kind, number = wanted or ("", 0)
    if ranks == 1 or not number or (number == ranks and not resources.gpus_per_task):
        return edit(facts) if user_line(facts) else None
    gone = ("gpus-per-task", "gpus", "gres")
    typed = [name for name in gone if facts.job.typed.text(name)]
    return change(gpus_per_node=gpus.request(kind, ranks), leave_out=typed)


def ranks_by_node(facts: Facts) -> Remedy | None:
    """Return the launch that has as many ranks as `--ntasks` asked for, told by node."""
    if facts.resources.ntasks is None:
        return None
    return change(ntasks_per_node=facts.resources.tasks_of_a_node, leave_out=["ntasks"])


def smaller_batch(facts: Facts) -> Remedy | None:
    """Return the fix that halves the batch size that was given; None when none was."""
    given = facts.argument("--batch-size")
    if not given.isdigit():
        return None
    return change(arguments={"--batch-size": max(1, int(given) // 2)})


def keras_2(facts: Facts) -> Remedy | None:
    """Return how the script gets Keras 2: by another import, or by a variable for `tf.keras`.

    None where that variable was given and there is no import to change.
    """
    where = user_line(facts)
    file = Path(where[1]) if where else None
    text = ""
    with contextlib.suppress(OSError):  # it may be gone, or another user's
        text = file.read_text("utf-8", "replace") if file and file.is_file() else ""
    for number, line in enumerate(text.splitlines(), 1):
        if KERAS_3.match(line):
            return change(first=f"{EDITOR} +{number} {quote(str(file))}")
    return None if LEGACY_KERAS in facts.plan.env else change(env=f"{LEGACY_KERAS}=1")


# What can only be told from the run: the name in an entry, and what makes the command of it
REMEDIES: Mapping[str, Callable[[Facts], Remedy | None]] = {
    "edit": edit,
    "exclude": exclude,
    "go-on": go_on,
    "gpu-for-each-rank": gpu_for_each_rank,
    "ranks-by-node": ranks_by_node,
    "keras-2": keras_2,
    "logs": all_logs,
    "smaller-batch": smaller_batch,
    "without-own-address": without_own_address,
    "without-own-tf-config": without_own_tf_config,
}
