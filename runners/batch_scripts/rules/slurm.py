"""Rules about what Slurm makes of the directives and of srun."""

from __future__ import annotations

from collections.abc import Iterator

from ...schedulers.base import limit_seconds
from ..directives import Job
from ..script import Script
from ..steps import Layer, Step
from .ranks import ranks_per_node
from .rule import Places, rule


def _sruns(script: Script) -> Iterator[tuple[Step, Layer]]:
    for step in script.steps:
        starter = step.layer("starter")
        if starter is not None and starter.name == "srun":
            yield step, starter


VERSIONS = "since Slurm 22.05 (until 23.02)"


def takes_over_cpus(version: str) -> bool:
    """Whether srun of this Slurm, "" for an unknown one, takes over --cpus-per-task of the job.

    NOTE: CHANGELOG of 22.05 ("srun no longer inherits SLURM_CPUS_PER_TASK") and of 23.11 ("get back
    the previous behavior").
    """
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    return bool(numbers) and not (22, 5) <= numbers < (23, 11)


@rule("srun-cpus-per-task")
def srun_cpus_per_task(script: Script) -> Places:
    cpus = script.job.count("cpus-per-task") or 1
    if takes_over_cpus(script.site.slurm_version):
        return
    for step, srun in _sruns(script):
        variables = {**step.command.exports, **step.command.given}
        bound = "mask" in _text(srun, "cpu-bind") or "map" in _text(srun, "cpu-bind")
        known = srun.get("cpus-per-task") or "SRUN_CPUS_PER_TASK" in variables
        if cpus == 1 or known or bound:
            continue
        ranks = ranks_per_node(script.job, step) if step.layer("agent") else 1
        whose = f"{ranks} ranks" if ranks and ranks > 1 else "each task"
        what = f"srun does not take over --cpus-per-task {VERSIONS}: 1 CPU for {whose}"
        yield srun.line, what, "srun --cpus-per-task=$SLURM_CPUS_PER_TASK ..."


@rule("cpus-missing")
def cpus_missing(script: Script) -> Places:
    job = script.job
    asked = job.find("cpus-per-task", "cpus-per-gpu", "ntasks", "ntasks-per-node", "mincpus")
    whole = job.exclusive or job.scheduler != "slurm"  # others give CPUs by chunks or whole nodes
    if asked or whole or not job.wants_gpus or job.find("ntasks-per-gpu"):
        return
    for step in script.steps:
        agent, starter = step.layer("agent"), step.layer("starter")
        told = starter is not None and starter.name != "srun"
        if agent is None and not told:
            continue
        if starter is not None and starter.get("cpus-per-task", "cpus-per-gpu", "ntasks"):
            continue
        ranks = ranks_per_node(job, step)
        if ranks and ranks > 1:
            what = f"{ranks} ranks on 1 CPU, no --cpus-per-task (unless the site counts by GPUs)"
            yield (
                step.line,
                what,
                f"--cpus-per-task={ranks * 4}, say: the CPUs of all {ranks} ranks",
            )


@rule("gpus-per-task")
def gpus_per_task(script: Script) -> Places:
    job = script.job
    asked, single = job.find("gpus-per-task"), 1 in (job.tasks, job.tasks_per_node)
    shared = single or _shares(job.get("gres-flags"), job.get("gpu-bind"))
    for _, srun in _sruns(script):
        own = srun.get("gpus-per-task")
        if shared or srun.count("ntasks") == 1:
            continue
        if _shares(_text(srun, "gres-flags"), _text(srun, "gpu-bind")):
            continue
        if own or (asked and asked.value != "0"):
            yield own.line if own else (asked.line if asked else 1), *_ISOLATED


_ISOLATED = (
    "--gpus-per-task hides the other ranks' GPUs: NCCL copies through the host's memory",
    "--gpus-per-node, or --gres-flags=allow-task-sharing beside it",
)


def _text(layer: Layer, name: str) -> str:
    value = layer.get(name)
    return value.text if value else ""


def _shares(flags: str, bind: str) -> bool:
    return "allow-task-sharing" in flags or bind == "none"


@rule("export-none")
def export_none(script: Script) -> Places:
    directive = script.job.get("export")
    reset = any("SLURM_EXPORT_ENV" in command.text for command in script.content.commands) or any(
        each.name == "SLURM_EXPORT_ENV" for each in script.content.assignments
    )
    for step, srun in _sruns(script):
        own, line = srun.get("export"), step.line
        text = own.text if own else ("" if reset else directive)
        prepares = step.command.exports or script.uses("module", "ml", "conda", "source", ".")
        if text and "ALL" not in text.upper().split(",") and prepares:
            line = srun.line if own else script.job.line("export")
            yield (
                line,
                f"--export={text}: exported variables do not reach the ranks",
                "--export=ALL",
            )


@rule("late-directive")
def late_directive(script: Script) -> Places:
    for line in script.job.late:
        text = script.content.comments[line]
        yield line, f"{text} is ignored: it stands after the first command", "move it to the top"


@rule("variable-in-directive")
def variable_in_directive(script: Script) -> Places:
    if script.job.scheduler != "slurm":
        return
    for each in script.job.directives:
        if "$" in each.value and each.name not in ("wrap", "comment"):
            yield (
                each.line,
                f"{each.value} is not expanded in a directive",
                "the value itself, or %u, %x, %j",
            )


@rule("output-folder")
def output_folder(script: Script) -> Places:
    made = {
        w.text.rstrip("/")
        for c in script.content.commands
        if c.name == "mkdir"
        for w in c.arguments
    }
    for name in ("output", "error"):
        folder = script.job.get(name).rpartition("/")[0]
        if folder and {folder, f"./{folder}"} & made and script.job.scheduler == "slurm":
            what = f"Slurm opens {folder}/ before this script makes it: without it the job fails"
            yield script.job.line(name), what, f"mkdir -p {folder} before sbatch"


@rule("time-limit")
def time_limit(script: Script) -> Places:
    job = script.job
    asked = limit_seconds(job.get("time")) if job.get("time") else None
    limit = _limit(script, job)
    most = limit_seconds(limit) if limit else None
    if asked and most and asked > most:
        what = f"--time={job.get('time')} is more than {limit}, the limit of {_queue(script)}"
        yield job.line("time"), what, f"--time={limit}"


def _queue(script: Script) -> str:
    default = next((each.name for each in script.site.partitions if each.default), "")
    return script.job.get("partition") or default or "the site"


def _limit(script: Script, job: Job) -> str:
    name, site = _queue(script), script.site
    limits = {each.name: each.time_limit for each in site.partitions}
    rules = site.profile.rules.max_time if site.profile else {}
    return limits.get(name) or rules.get(name) or rules.get(job.get("qos")) or rules.get("*", "")


@rule("signal-without-trap")
def signal_without_trap(script: Script) -> Places:
    text = script.job.get("signal")
    name = text[2:].partition("@")[0].upper().removeprefix("SIG") if text.startswith("B:") else ""
    traps = [c for c in script.content.commands if c.name == "trap"]
    names = {word.text.upper().removeprefix("SIG") for trap in traps for word in trap.arguments}
    if name and not {name, {"10": "USR1", "12": "USR2", "15": "TERM"}.get(name, name)} & names:
        what = f"there is no trap for {name}: --signal={text} only ends the script"
        yield (
            script.job.line("signal"),
            what,
            f"--signal={text[2:]}, which the ranks get, or a trap",
        )


RULES = (
    srun_cpus_per_task,
    cpus_missing,
    gpus_per_task,
    export_none,
    late_directive,
    variable_in_directive,
    output_folder,
    time_limit,
    signal_without_trap,
)
