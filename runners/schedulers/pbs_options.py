"""Resources -> the #PBS lines of a script. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..core.job_record import JobPaths
from ..core.model import JobSpec, Plan, Refusal, Resources
from ..core.remedy import change
from . import time_limits, untranslatable

HAS = frozenset(
    (
        "nodes",
        "ntasks",
        "ntasks_per_node",
        "cpus_per_task",
        "gpus_per_node",
        "gres",
        "time",
        "partition",
        "account",
        "constraint",
        "mem",
        "exclusive",
        "dependency",
    )
)
# PBS's -q is a queue, which is Slurm's partition; a reservation has a queue of its own.
INSTEAD = {
    "qos": "partition",
    "reservation": "partition",
    "gpus": untranslatable.GPUS,
    "gpus_per_task": untranslatable.GPUS,
}
# PBS's "chunk" has attributes of nodes as NAME=VALUE, such as system=polaris.
ATTRIBUTES = re.compile(r"[\w.-]+=[\w.-]+(:[\w.-]+=[\w.-]+)*")
# PBS reads K, M, G and T as kb, mb, gb, tb of 1024, as Slurm does.
MEMORY = re.compile(r"(\d+)([KMGT]?)B?", re.IGNORECASE)


def refusals(spec: JobSpec) -> tuple[Refusal, ...]:
    """Return what PBS does not have."""
    return (*untranslatable.unknown(spec, "PBS", HAS, INSTEAD), *_unclear(spec.resources))


def _unclear(resources: Resources) -> Iterator[Refusal]:
    constraint = resources.constraint
    if constraint and not ATTRIBUTES.fullmatch(constraint):
        yield Refusal(
            "PBS has no --constraint but attributes of nodes",
            f"--constraint is {constraint}, and not like system=polaris",
            (change(leave_out=["constraint"]),),
        )
    if resources.mem and not MEMORY.fullmatch(resources.mem):
        yield Refusal(f"PBS reads no --mem {resources.mem}", "", (change(leave_out=["mem"]),))
    for name in ("gpus_per_node", "gres"):
        text = getattr(resources, name)
        if text and _gpus(text) is None:
            option = "--" + name.replace("_", "-")
            what = f"PBS counts GPUs without a type or another name: {option} {text}"
            number = text.rpartition(":")[2]
            gone = ["gres"] if name == "gres" else []
            remedy = change(gpus_per_node=number, leave_out=gone)
            yield Refusal(what, "its resource is ngpus", (remedy,) if number.isdigit() else ())


def directives(plan: Plan, paths: JobPaths, cwd: str) -> list[str]:
    """Return the #PBS lines; --sbatch-arg follows as it is, for what else a site wants.

    The script writes its log itself, so PBS's copy of the output is dropped.
    """
    resources = plan.spec.resources
    options = [f"-N {job_name(plan.spec.name)}", "-j oe", "-o /dev/null"]
    options.append(f"-l select={select(resources)}")
    options.append("-l place=" + ("scatter:excl" if resources.exclusive else "scatter"))
    limit = time_limits.seconds(resources.time) if resources.time else None
    if limit is not None:
        options.append(f"-l walltime={time_limits.clock(limit)}")
    for letter, value in (("-q", resources.partition), ("-A", resources.account)):
        options += [f"{letter} {value}"] if value else []
    if plan.spec.requeue is not None:
        options.append("-r y" if plan.spec.requeue else "-r n")
    if resources.dependency:
        options.append(f"-W depend={resources.dependency}")
    return [f"#PBS {option}" for option in (*options, *plan.spec.sbatch_args)]


def select(resources: Resources) -> str:
    """Return the nodes as chunks: what each has to give, unless whole nodes are taken."""
    parts = [str(resources.nodes)]
    if resources.constraint:
        parts.append(resources.constraint)
    if not resources.exclusive:
        tasks = -(-resources.tasks // resources.nodes)
        parts += [f"ncpus={tasks * (resources.cpus_per_task or 1)}", f"mpiprocs={tasks}"]
        gpus = _gpus(resources.gpus_per_node or resources.gres or "")
        parts += [f"ngpus={gpus}"] if gpus else []
    if resources.mem:
        number, unit = MEMORY.fullmatch(resources.mem).groups()  # type: ignore[union-attr]
        parts.append(f"mem={number}{(unit or 'M').lower()}b")
    return ":".join(parts)


def _gpus(text: str) -> int | None:
    """Return N of `N` or `gpu:N`."""
    match = re.fullmatch(r"(?:gpu:)?(\d+)", text)
    return int(match.group(1)) if match else None


def job_name(name: str) -> str:
    """Return a name that PBS takes: visible, without blanks, a letter or digit first."""
    plain = re.sub(r"[^A-Za-z0-9_.+-]", "_", name)
    return (plain if plain[0].isalnum() else f"j{plain}")[:230]
