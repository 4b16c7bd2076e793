"""Rules about the CPUs, GPUs and variables that srun gives to the ranks."""

from __future__ import annotations

from collections.abc import Iterator

from runners.core.text import count

from ..script import Script
from ..step import JobStep, Layer
from .rank_placement import ranks_per_node, tasks_per_node
from .rule import Places, rule

COUNTS = ("ntasks", "ntasks-per-node", "ntasks-per-gpu", "cpus-per-gpu", "mincpus")


def _sruns(script: Script) -> Iterator[tuple[JobStep, Layer]]:
    return ((step, step.starter) for step in script.steps if step.starter.name == "srun")


def inherits_cpus(version: str) -> bool:
    """Whether srun of this Slurm, "" for an unknown one, respects the job's --cpus-per-task.

    NOTE: CHANGELOG of 22.05 ("srun no longer inherits SLURM_CPUS_PER_TASK") and of 23.11 ("get back
    the previous behavior").
    """
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    return bool(numbers) and not (22, 5) <= numbers < (23, 11)


@rule
def srun_cpus_per_task(script: Script) -> Places:
    if (script.job.count("cpus-per-task") or 1) == 1 or inherits_cpus(script.site.slurm_version):
        return
    for step, srun in _sruns(script):
        bind = srun.text("cpu-bind")
        known = srun.get("cpus-per-task") or "SRUN_CPUS_PER_TASK" in step.variables
        if known or "mask" in bind or "map" in bind:
            continue
        ranks = ranks_per_node(script.job, step) if step.agent else 1
        whose = f"{ranks} ranks" if ranks and ranks > 1 else "each task"
        version = script.site.slurm_version or "22.05 to 23.02"
        what = f"with Slurm {version} srun gives {whose} 1 CPU, whatever --cpus-per-task of the job"
        yield srun.line, what, "srun --cpus-per-task=$SLURM_CPUS_PER_TASK ..."


@rule
def cpus_missing(script: Script) -> Places:
    job = script.job
    whole = job.exclusive or job.scheduler != "slurm"  # others give CPUs by chunks or whole nodes
    given, tasks = job.has("cpus-per-task"), job.tasks_per_node
    if whole or not (job.wants_gpus and tasks) or (job.has(*COUNTS) and not given):
        return
    for step in script.steps:
        ranks, srun = ranks_per_node(job, step) or 0, step.starter.name == "srun"
        cpus = (job.count("cpus-per-task") or 1) * (1 if srun else tasks)
        counted = step.starter.has("cpus-per-task", "cpus-per-gpu", *(["ntasks"] if srun else []))
        if ranks > cpus and not counted and (step.agent or (step.starter and not srun)):
            unless = "" if given else ", no --cpus-per-task (unless the site counts by GPUs)"
            right = f"--cpus-per-task={ranks * 4}, say: the CPUs of all {ranks} ranks"
            yield step.line, f"{ranks} ranks on {count(cpus, 'CPU')}{unless}", right


@rule
def gpus_per_task(script: Script) -> Places:
    job = script.job
    job_has_it = job.text("gpus-per-task") not in ("", "0")
    for _, srun in _sruns(script):
        of_step, flags = srun.get("gpus-per-task"), job.text("gres-flags") + srun.text("gres-flags")
        bound = "none" not in (job.text("gpu-bind"), srun.text("gpu-bind"))
        tasks = srun.count("ntasks") or job.tasks
        several = 1 not in (tasks, tasks_per_node(job, srun))
        shared = "allow-task-sharing" in flags
        if several and bound and not shared and (of_step or job_has_it):
            what = "--gpus-per-task hides the other ranks' GPUs: NCCL copies through the host's"
            right = "--gpus-per-node, or --gres-flags=allow-task-sharing beside it"
            yield of_step.line if of_step else job.line_of("gpus-per-task"), f"{what} memory", right


@rule
def export_none(script: Script) -> Places:
    reset = "SLURM_EXPORT_ENV" in script.text
    for _, srun in _sruns(script):
        of_step = srun.get("export")
        text = of_step.text if of_step else ("" if reset else script.job.text("export"))
        if text and "ALL" not in text.upper().split(","):
            what = f"--export={text}: no other variable reaches the ranks, PATH neither"
            yield (srun.line if of_step else script.job.line_of("export")), what, "--export=ALL"
