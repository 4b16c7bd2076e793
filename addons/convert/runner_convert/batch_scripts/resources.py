"""The resources of a launch line but for its counts, of directives and srun: GPUs, limits."""

from __future__ import annotations

from dataclasses import replace

from runners.core import gpus
from runners.settings.table import SETTINGS

from . import counts
from .directives import Directives
from .draft import LaunchLine
from .programs import NAMES, OPTIONS, Option
from .step import JobStep, is_part
from .words import Word, literal

DIRECT = {name for name, setting in SETTINGS.items() if setting.group in ("slurm", "job")}
OF_GPUS = ("gpus", "gpus-per-node")
OF_PART = ("nodelist", "relative", "exclude", "gpus")  # of one node's agent
OF_JOB = ("job-name", "partition", "account", "time")
OF_SHIFTER = ("image", "volume", "module")
OF_PYXIS = ("container-", "no-container-")
OF_OUTPUT, OF_IMAGE = NAMES["of_output"], NAMES["of_image"]
# What is left out of the directives of a scheduler, "" for all.
REASONS = {
    ("pbs", "V"): "-V: runner passes the environment on",
    ("pbs", "j"): "-j: runner's log has both outputs",
    ("cobalt", "output"): "-O: runner names the outputs itself",
    ("", "wrap"): "--wrap: it is of sbatch without a script",
    ("", "export"): "--export: runner passes the environment on itself",
}


def add(draft: LaunchLine, job: Directives, step: JobStep) -> None:
    for option in job.options:
        if option.name not in counts.COUNTS:
            _directive(draft, option, job)
            if option.name in OF_SHIFTER and not step.container:
                text = f"--{option.name}={option.text}: this does not run in that image"
                draft.lose(option.line, text)
    options = step.starter.options if step.starter.name == "srun" else ()
    options = [option for option in options if not is_part(step) or option.name not in OF_PART]
    of_gpus = [option for option in options if option.name in (*OF_GPUS, "gres")]
    if any(option.name != "gres" or gpus.in_gres(option.text) for option in of_gpus):
        _drop_gpus(draft)
        if job.gpu_types and not job.gpu_type:
            text = f"GPUs of {' and '.join(sorted(job.gpu_types))}: the step asks for its own"
            draft.lose(job.line_of("gres", *OF_GPUS, "gpus-per-task"), text)
    for option in options:
        _srun(draft, _of_type(option, job.gpu_type) if option in of_gpus else option)
    if not job.scheduler:  # srun itself asks for the job
        for option in (option for option in options if option.name in OF_JOB):
            _setting(draft, option.name, option.value, option.line)
    if not job.scheduler:
        text = "no directives: add what the submission asks for, as --nodes and --gpus-per-node"
        draft.look_at(0, text)
    counts.add(draft, job, step)


def _directive(draft: LaunchLine, option: Option, job: Directives) -> None:
    name, value, line = option.name, option.text, option.line
    known = name in DIRECT or name == "array"
    if name in OF_IMAGE or (name == "export" and value in ("", "ALL")):
        return
    if reason := REASONS.get((job.scheduler, name)) or REASONS.get(("", name)):
        draft.leave_out(line, reason)
    elif name == "chdir" or (job.scheduler == "pbs" and name in ("system", "ncpus", "select")):
        return  # of the former the script's commands know
    elif name == "signal":
        draft.add(name, value.removeprefix("B:"))
    elif name == "exclusive" and value:
        draft.add("sbatch-arg", f"--exclusive={value}")
    elif known and len(name) > 1:
        _setting(draft, name, option.value if value else None, line)
    elif len(name) == 1:
        draft.add("sbatch-arg", f"-{name}{value}")
    elif name == "property":
        draft.lose(line, f"{value}: a property of nodes")
    elif job.scheduler == "pbs":
        draft.add("sbatch-arg", f"-l{name}={value}".removesuffix("="))
    elif not value and name in OPTIONS["srun"].values:
        draft.lose(line, f"--{name} has no value")
    elif name.startswith(OF_PYXIS):
        draft.lose(line, f"--{name}: an option of pyxis")
    else:
        draft.add("sbatch-arg", f"--{name}={value}" if value else f"--{name}", line)


def _setting(draft: LaunchLine, name: str, value: Word | None, line: int) -> None:
    switch = name in SETTINGS and SETTINGS[name].kind == "switch"
    if value is None and not switch:
        draft.lose(line, f"--{name} has no value")
    else:
        draft.add(name, None if switch else value)


def _srun(draft: LaunchLine, option: Option) -> None:
    name, value = option.name, option.value
    if name in ("mpi", "cpu-bind") and value is not None:
        draft.add(name, value)
    elif name in DIRECT and name not in counts.COUNTS and name not in OF_OUTPUT:
        _setting(draft, name, value, option.line)
    elif name.startswith(OF_PYXIS) and name not in OF_IMAGE:
        draft.lose(option.line, f"--{name}: an option of pyxis")
    elif name not in counts.COUNTS and name not in OF_IMAGE and name not in OF_OUTPUT:
        draft.add("srun-arg", f"--{name}={value.text}" if value else f"--{name}", option.line)


def _drop_gpus(draft: LaunchLine) -> None:
    """Drop the job's GPUs where a step asks for its own, perhaps in another way."""
    draft.drop(*OF_GPUS)
    gres = next((value.text for name, value in draft.options if name == "gres" and value), "")
    if gpus.in_gres(gres):
        draft.drop("gres")
        if others := _without_gpus(gres):
            draft.add("gres", ",".join(others))


def _without_gpus(gres: str) -> list[str]:
    return [part for part in gres.split(",") if part.partition(":")[0] != "gpu"]


def _of_type(option: Option, kind: str) -> Option:
    """Return a step's GPUs with the type of the job's, where the step names none."""
    if not kind or option.value is None or option.value.unknown:
        return option
    in_gres = option.name == "gres"
    kind_and_number = gpus.in_gres(option.text) if in_gres else gpus.typed(option.text)
    several = len(option.text.split(",")) - len(_without_gpus(option.text)) > 1
    if kind_and_number is None or kind_and_number[0] or (in_gres and several):
        return option
    gres = [f"gpu:{kind}:{kind_and_number[1]}", *_without_gpus(option.text)]
    text = ",".join(gres) if in_gres else f"{kind}:{kind_and_number[1]}"
    return replace(option, value=literal(text, option.line))
