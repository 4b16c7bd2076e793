"""Fixes that entries of `signatures/run` name: each needs a value of the run's facts."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from shlex import quote

from ..contract.world_causes import why_several
from ..core.model import SchedulerName
from ..core.remedy import Remedy, advice, change, command, shell_line
from .facts import Facts
from .findings import dataset_in, host, signal_of
from .fixes import AGAIN, FETCH, doctor, in_image, logs, on_node, saves

LIMITS: Mapping[int, str] = {signal.SIGXCPU: "-t", signal.SIGXFSZ: "-f"}  # options of ulimit


def requeue_if_saved(facts: Facts) -> Remedy:
    """Return the launch that is requeued, where a trainer saves what it can resume from."""
    return change(requeue=True) if saves(facts) else AGAIN


def without_staging(facts: Facts) -> Remedy:
    """Return the launch that leaves the data, or the image, where it is."""
    return change({f"stage-{facts.fields['what']}": "none"})


def ranks_by_launcher(facts: Facts) -> Remedy:
    """Return what makes torch.distributed take the job's number of ranks."""
    command = facts.plan.command
    at = next((place for place, word in enumerate(command) if word.endswith(".py")), None)
    if command[:1] == ("torchrun",) and at is not None:
        return change(launcher="torchrun", trainer=command[at:])
    return advice("init_process_group() without a size or a store: runner sets the variables")


def one_world(facts: Facts) -> Remedy:
    """Return what makes one world of several."""
    return advice(why_several(facts.fields["framework"])[1])


def doctor_on_node(facts: Facts) -> Remedy:
    """Return the command that looks at the GPUs of the first rank's node."""
    return doctor(facts, "--nodelist", host(facts), "--gpus-per-node", 1)


def lower_rate(facts: Facts) -> Remedy:
    """Return the launch with a tenth of the learning rate, and no more than one hundredth."""
    try:
        rate = min(float(facts.argument("--base-lr")) / 10, 0.01)
    except ValueError:
        rate = 0.01
    return change(arguments={"--base-lr": f"{rate:g}"})


def without_warning(facts: Facts) -> Remedy:
    """Return the launch whose ranks are not warned before the limit, if they were to be."""
    interruption, typed = facts.plan.interruption, facts.job.typed
    if interruption.signal is None:
        return logs(facts)
    gone = [name for name in ("signal", "requeue-limit") if typed.text(name)]
    return change({"requeue": False} if interruption.requeue else {}, leave_out=gone)


def without_limit(facts: Facts) -> Remedy:
    """Return how a job gets no limit of the shell: sbatch's way, else in the shell itself."""
    if facts.job.scheduler == SchedulerName.SLURM:
        return change(sbatch_arg="--propagate=NONE")
    return advice(
        f"`ulimit {LIMITS[signal_of(facts)]} unlimited` in the shell that launches the job; a "
        "limit of the node's own is its administrator's"
    )


def without_bind(facts: Facts, words: Mapping[str, str]) -> Remedy:
    """Return the launch without the only folder that is bound, if the library is below it."""
    binds = [bind.split(":") for bind in facts.plan.binds]
    targets = [parts[min(1, len(parts) - 1)] for parts in binds]
    if len(targets) == 1 and words["library"].startswith(targets[0].rstrip("/") + "/"):
        return change(leave_out=["bind"])
    run = in_image if facts.has_image else on_node
    return run(facts, "ldd", "--version")


def data(facts: Facts, words: Mapping[str, str]) -> Remedy:
    """Return the command that shows the data of the plan, else the launch with data."""
    if paths := facts.plan.data:
        return command("ls", "-l", *paths)
    name = dataset_in(words["said"])
    return change(data=name, first=f"runner data fetch {name}") if name else FETCH


def permissions(facts: Facts, words: Mapping[str, str]) -> Remedy:
    """Return the command that shows who may open a file."""
    path = words["path"]
    return shell_line(f"ls -ld {quote(path)} {quote(os.path.dirname(path))}; id")


# The names in entries
OF_FACTS: Mapping[str, Callable[[Facts], Remedy]] = {
    "again": lambda facts: AGAIN,
    "doctor-on-node": doctor_on_node,
    "lower-rate": lower_rate,
    "one-world": one_world,
    "rank-logs": logs,
    "ranks-by-launcher": ranks_by_launcher,
    "requeue-if-saved": requeue_if_saved,
    "without-limit": without_limit,
    "without-staging": without_staging,
    "without-warning": without_warning,
}
# Those that need what the entry's expression found
OF_FOUND: Mapping[str, Callable[[Facts, Mapping[str, str]], Remedy]] = {
    "data": data,
    "permissions": permissions,
    "without-bind": without_bind,
}
