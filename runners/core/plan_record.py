"""plan.json of a run: what was decided for it, for `explain`, `compare` and `scale` to read.

Of --env it has the names alone: values may be secrets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ..contract.enums import Controller, WordEnum
from .errors import SystemFault
from .files import DAMAGED, from_json, read_any_json, write_json
from .job_record import JobPaths
from .model import BindMount, GpuVendor, Resources
from .plan import Cpus, Gpus, Interruption, Launching, Network, Plan, Staging, Wireup

VERSION = 5  # of the form of the file; forms 3 and 4 are read too
DECISIONS: Mapping[str, Any] = {
    "resources": Resources,
    "launching": Launching,
    "wireup": Wireup,
    "gpus": Gpus,
    "cpus": Cpus,
    "network": Network,
    "staging": Staging,
    "interruption": Interruption,
}
# Of one item, and of several
TEXTS = ("image", "profiler", "timeline")
LISTS = ("command", "data", "binds", "env", "sbatch_args")
OF_FORM_3 = {"warning": "signal", "restart_limit": "requeue_limit"}  # of interruption


@dataclass(frozen=True)
class PlanRecord:
    """What was decided for a run.

    `resources`, `launching` and `wireup` are None where nobody knows them: a run without the file,
    or an older one. `command` is the trainer's, as Python or the image runs it on each rank, and
    its arguments. `image` is how the launch named it, or its path. `data` are the paths of the
    datasets, as the launch found them, `binds` those of --bind, each SRC[:DST[:ro]], and `env` the
    names of the variables of --env. `sbatch_args` are the launch's own. `profiler` is the command
    of --profile-with and `timeline` the file of Horovod's, "" for none.
    """

    command: tuple[str, ...] = ()
    image: str = ""
    data: tuple[str, ...] = ()
    binds: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    sbatch_args: tuple[str, ...] = ()
    profiler: str = ""
    timeline: str = ""
    resources: Resources | None = None
    launching: Launching | None = None
    wireup: Wireup | None = None
    gpus: Gpus = field(default_factory=Gpus)
    cpus: Cpus = field(default_factory=Cpus)
    network: Network = field(default_factory=Network)
    staging: Staging = field(default_factory=Staging)
    interruption: Interruption = field(default_factory=Interruption)

    @property
    def arguments(self) -> tuple[str, ...]:
        """The trainer's: its command without `-m` and the module, its file or its program."""
        return self.command[2 if self.command[:1] == ("-m",) else 1 :]

    @property
    def controller(self) -> Controller | None:
        return self.wireup.controller if self.wireup else None

    @property
    def mpi(self) -> str | None:
        """Return srun's --mpi=, None without srun, and where nobody knows it."""
        return self.wireup.mpi if self.wireup else None


def _names(value: Any) -> tuple[str, ...]:
    if not (isinstance(value, list) and all(isinstance(name, str) for name in value)):
        raise ValueError(f"{value!r} is no list of names")
    return tuple(value)


ENUMS = {kind.__name__: kind for kind in WordEnum.__subclasses__()}
READERS = {**ENUMS, "tuple[str, ...]": _names}


def as_data(plan: Plan) -> dict[str, Any]:
    """Return the plan's decisions and choices, as they are written down."""
    decisions = {name: asdict(getattr(plan, name)) for name in DECISIONS}
    choices = [asdict(choice) for choice in plan.choices]
    spec = plan.spec
    named = (
        str(setting.value) for setting in spec.settings if setting.name == "image" and setting.value
    )
    return {
        "version": VERSION,
        **decisions,
        "command": list(spec.trainer.command),
        "image": next(named, str(spec.image.path)),
        "data": [str(dataset.path) for dataset in spec.data],
        "binds": [_bind(bind) for bind in spec.binds],
        "env": [name for name, _ in spec.env],
        "sbatch_args": list(spec.sbatch_args),
        "profiler": spec.profiling.command if spec.profiling else "",
        "timeline": spec.tuning.timeline or "",
        "choices": choices,
    }


def _bind(bind: BindMount) -> str:
    """Return a bind mount as --bind takes it."""
    source = str(bind.source)
    if bind.read_only:
        return f"{source}:{bind.target}:ro"
    return source if bind.target == source else f"{source}:{bind.target}"


def write(paths: JobPaths, plan: Plan) -> None:
    write_json(paths.plan, as_data(plan), private=True)


def read(paths: JobPaths, otherwise: PlanRecord | None = None) -> PlanRecord:
    """Return what was decided for a run, and nothing where there is no such file.

    What the file does not have, as one of an older runner, is that of `otherwise`. Raises
    SystemFault for a file that cannot be read, or has another form.
    """
    content, otherwise = read_any_json(paths.plan), otherwise or PlanRecord()
    if content is None:
        return otherwise
    version = content.get("version") if isinstance(content, dict) else None
    if version not in (3, 4, VERSION):
        raise SystemFault(
            f"{paths.plan} was written by another version of runner",
            f"its form is {version}, and this one reads 3 to {VERSION}",
            id="plan-of-other-version",
        )
    try:
        content = _of_form_3(content) if version == 3 else content
        content = _of_form_4(content) if version < VERSION else content
        kinds = {name: kind for name, kind in DECISIONS.items() if name in content}
        written = {name: from_json(kind, content[name], READERS) for name, kind in kinds.items()}
        written.update((name, _names(content[name])) for name in LISTS if name in content)
        written.update((name, str(content[name])) for name in TEXTS if name in content)
        return replace(otherwise, **written)
    except DAMAGED as error:
        raise SystemFault(f"cannot read {paths.plan}", str(error), id="plan-unreadable") from None


def _of_form_3(content: Mapping[str, Any]) -> dict[str, Any]:
    interruption = {OF_FORM_3.get(k, k): v for k, v in content.get("interruption", {}).items()}
    cpus = {name: value for name, value in content.get("cpus", {}).items() if name != "per_task"}
    return {**content, "interruption": interruption, "cpus": cpus}


def _of_form_4(content: Mapping[str, Any]) -> dict[str, Any]:
    """Two switches told whose GPUs they are."""
    gpus = dict(content.get("gpus", {}))
    nv, rocm = gpus.pop("nv", False), gpus.pop("rocm", False)
    vendor = GpuVendor.NVIDIA if nv else GpuVendor.AMD if rocm else None
    return {**content, "gpus": {**gpus, "vendor": vendor}}
