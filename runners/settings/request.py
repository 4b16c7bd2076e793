"""Converts merged settings into a JobSpec; refuses contradictions."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any, Callable, TypeVar

from ..contract.enums import Controller, ProcessGroup, WordEnum
from ..core.errors import FirstProblem, NotFound, UsageError
from ..core.model import (
    BindMount,
    DataAccess,
    Dataset,
    ImageAccess,
    ImageInfo,
    JobSpec,
    LauncherName,
    Resources,
    RuntimeName,
    SchedulerName,
)
from ..core.remedy import change
from ..core.site import TIME
from ..core.trainer import Trainer, Tuning
from . import gpu_request, profiling, tuning
from .config import Config

SIGNAL = re.compile(r"(?:B:)?(?:(?:SIG)?USR1|10)(?:@(\d{1,5}))?", re.IGNORECASE)
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
COPIED_SETTINGS = (
    *("mpi", "cpu_bind", "nv", "rocm"),
    *("output", "error", "requeue"),
)
OneOf = TypeVar("OneOf", bound=WordEnum)
COUNTS = ("nodes", "ntasks", "ntasks-per-node", "cpus-per-task")
AT_ONCE = FirstProblem()
ENGLISH_TIME = re.compile(r"(\d{1,5}) ?([mhd])[a-z]*")
GPU_NUMBERS = ("gpus", "gpus-per-node", "gpus-per-task")


def job_spec(
    config: Config,
    resources: Resources,
    image: ImageInfo,
    trainer: Trainer,
    data: tuple[Dataset, ...] = (),
    problems: FirstProblem = AT_ONCE,
) -> JobSpec:
    """Return the request as one value; raise UsageError for what contradicts itself.

    `resources` are those of the settings, `image` and `data` what was found for theirs. Where
    `problems` keeps an error, the setting is left out.
    """
    get, of = config.get, problems.of
    interfaces = (name.strip() for name in (get("network-interfaces") or "").split(","))
    return JobSpec(
        name=of(_line, "job-name", get("job-name") or trainer.name, instead=trainer.name),
        image=image,
        trainer=trainer,
        resources=resources,
        runs_dir=config.runs_dir,
        scheduler=one_of(SchedulerName, get("scheduler")),
        runtime=one_of(RuntimeName, get("runtime")),
        launcher=one_of(LauncherName, get("launcher")),
        controller=one_of(Controller, get("controller")),
        stage_data=one_of(DataAccess, get("stage-data")),
        stage_image=one_of(ImageAccess, get("stage-image")),
        host_mpi=bool(get("host-mpi")),
        gate=get("gate") is not False,
        # A trainer of ours that needs it has no other way to find its ranks.
        tf_config=bool(get("tf-config")) or trainer.world is ProcessGroup.TENSORFLOW,
        network_interfaces=tuple(filter(None, interfaces)),
        tuning=of(tuning.read, get, instead=Tuning()),
        profiling=of(profiling.read, get("profile-with"), get("profile-ranks")),
        data=data,
        requeue_limit=of(_requeue_limit, config),
        signal=of(_signal, get("signal")),
        binds=_each(parse_bind, get("bind"), problems),
        env=_each(parse_env, get("env"), problems),
        modules=_each(_module, get("module"), problems),
        module_use=_each(_module_folder, get("module-use"), problems),
        module_purge=bool(get("module-purge")),
        sbatch_args=tuple(get("sbatch-arg") or ()),
        srun_args=tuple(get("srun-arg") or ()),
        apptainer_args=tuple(get("apptainer-arg") or ()),
        settings=config.given,
        **{name: get(name.replace("_", "-")) for name in COPIED_SETTINGS},
    )


def _each(
    parse: Callable[[str], Any], texts: Iterable[str] | None, problems: FirstProblem
) -> tuple[Any, ...]:
    """Return what the items of a list stand for, without those of which an error was kept."""
    parsed = [problems.of(parse, text) for text in texts or ()]
    return tuple(value for value in parsed if value is not None)


def resources(config: Config, ranks: bool, problems: FirstProblem = AT_ONCE) -> Resources:
    """Return what is asked of the scheduler, with a task for each GPU where there are `ranks`.

    Raises UsageError; where `problems` keeps an error, the setting has its default.
    """
    defaults = Resources()
    values = {
        f.name: problems.of(
            _resource,
            *(f.name.replace("_", "-"), config.get(f.name.replace("_", "-"))),
            instead=getattr(defaults, f.name),
        )
        for f in fields(Resources)
    }
    for switch in ("exclusive", "overcommit"):
        values[switch] = bool(values[switch])
    values = problems.of(gpu_request.without_none, config, values, instead=values)
    resources = Resources(**values)
    problems.of(gpu_request.check, resources)
    problems.of(_check_tasks, resources)
    return gpu_request.with_ranks(resources, config.given, ranks)


def _resource(name: str, value: Any) -> Any:
    """Return a setting of the resources; raise UsageError for a value that it cannot have."""
    if name in COUNTS:
        _positive(name, value)
    if isinstance(value, str):
        _line(name, value)
    if name == "time" and value is not None and not TIME.fullmatch(value):
        raise UsageError(
            f"--time {value!r} is not a time that Slurm reads",
            "it reads 30 (minutes), 01:30:00 and 2-12:00:00 (days-hours)",
            change(time=_meant_time(value)),
            id="time-malformed",
        )
    if name in GPU_NUMBERS and value is not None:
        gpu_request.check_number(name, value)
    return value


def _meant_time(text: str) -> str:
    """Return a time such as 1h, 90min or 2d as Slurm writes it; an hour for any other text."""
    match = ENGLISH_TIME.fullmatch(text.strip().lower())
    number, unit = match.groups() if match else ("1", "h")
    minutes = int(number) * {"m": 1, "h": 60, "d": 24 * 60}[unit]
    days, minutes = divmod(minutes, 24 * 60)
    clock = f"{minutes // 60:02d}:{minutes % 60:02d}:00"
    return f"{days}-{clock}" if days else clock


def _check_tasks(resources: Resources) -> None:
    """Refuse a number of ranks that does not fit the number of nodes."""
    per_node, total = resources.ntasks_per_node, resources.ntasks
    if total is not None and total < resources.nodes:
        raise UsageError(
            f"--ntasks {total} leaves some of --nodes {resources.nodes} without a task",
            remedy=[change(ntasks=resources.nodes), change(nodes=total)],
            id="ntasks-too-few",
        )
    if total is not None and per_node is not None and total != resources.nodes * per_node:
        raise UsageError(
            f"--ntasks {total} is not --nodes {resources.nodes} times --ntasks-per-node {per_node}",
            remedy=[change(leave_out=["ntasks"]), change(ntasks=resources.nodes * per_node)],
            id="ntasks-contradict",
        )


def _positive(name: str, value: Any) -> None:
    if value is not None and value < 1:
        raise UsageError(f"--{name} {value} must be 1 or more", id="number-below-one")


def _line(name: str, text: str) -> str:
    """Refuse control characters, which cannot stand in a line that starts with #SBATCH."""
    if not text or any(ord(char) < 32 or ord(char) == 127 for char in text):
        raise UsageError(
            f"--{name} {text!r} must be one line of visible characters", id="text-not-one-line"
        )
    return text


def _module(text: str) -> str:
    """Refuse what is no module's name, nor several with | between."""
    if not all(_line("module", text).split("|")):
        raise UsageError(
            f"--module {text!r} names no module on one side of |", id="module-malformed"
        )
    return text


def module_folders(config: Config) -> tuple[str, ...]:
    return tuple(_module_folder(text) for text in config.get("module-use") or ())


def _module_folder(text: str) -> str:
    """Return the absolute path of a folder, which must be on a file system that the nodes share."""
    folder = Path(_line("module-use", text)).expanduser().absolute()
    if not folder.is_dir():
        raise NotFound(
            f"--module-use {text}: there is no folder {folder}", id="module-folder-missing"
        )
    return str(folder)


def _requeue_limit(config: Config) -> int | None:
    limit: int | None = config.get("requeue-limit")
    _positive("requeue-limit", limit)
    if limit is not None and not config.get("requeue"):
        raise UsageError(
            "--requeue-limit goes with --requeue",
            remedy=change(requeue=True),
            id="requeue-limit-alone",
        )
    return limit


def one_of(kind: type[OneOf], text: str) -> OneOf | None:
    """Return one of a closed set, None for auto."""
    return None if text == "auto" else kind(text)


def _signal(text: str | None) -> int | None:
    """Return the seconds of a --signal in sbatch's form, where 60 is the default."""
    if text is None:
        return None
    match = SIGNAL.fullmatch(text)
    if not match:
        raise UsageError(
            f"--signal {text!r} is not [B:]USR1[@SECONDS]",
            "trainers save and stop on SIGUSR1, which the job's script passes on to them\n"
            "what only your own trainer knows: --sbatch-arg=--signal=...",
            change(signal="USR1@120"),
            id="signal-malformed",
        )
    return int(match.group(1) or 60)


def parse_bind(text: str) -> BindMount:
    """Parse `SRC[:DST[:ro|rw]]`; raise UsageError when malformed or when SRC does not exist."""
    parts = text.split(":")
    mode = parts[2] if len(parts) == 3 else "rw"
    if not 1 <= len(parts) <= 3 or not all(parts) or mode not in ("ro", "rw"):
        raise UsageError(
            f"--bind {text!r} is malformed",
            remedy="--bind SRC, SRC:DST, SRC:DST:ro or SRC:DST:rw",
            id="bind-malformed",
        )
    source = Path(parts[0]).expanduser().absolute()
    target = parts[1] if len(parts) > 1 else str(source)
    if not target.startswith("/"):
        raise UsageError(
            f"--bind {text!r}: {target} must be an absolute path in the image",
            id="bind-target-relative",
        )
    if not source.exists():
        raise NotFound(
            f"--bind {text}: {source} does not exist on this machine", id="bind-source-missing"
        )
    return BindMount(str(source), target, mode == "ro")


def parse_env(text: str) -> tuple[str, str]:
    """Parse `NAME=VALUE`, or `NAME`, whose value is taken from our own environment.

    Raises UsageError when the name is not one, or has no value here.
    """
    name, equals, value = text.partition("=")
    if not VARIABLE.fullmatch(name):
        raise UsageError(
            f"--env {text!r} is not NAME=VALUE, nor the name of a variable", id="env-malformed"
        )
    if not equals and name not in os.environ:
        raise UsageError(
            f"--env {name}: it is not set here", remedy=f"export {name}=VALUE", id="env-not-set"
        )
    return name, value if equals else os.environ[name]
