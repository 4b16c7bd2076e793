"""What runs the image: Plan -> the tokens before a command, and the variables around it.

One `Runtime` each; apptainer and singularity share theirs. Adding one is such a class and a row
here.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...core.model import BindMount, Dataset, Plan
from ...core.tokens import Expanded
from ..stage_lines import source
from .apptainer import Apptainer
from .base import NoRuntime, Runtime
from .container_engine import ContainerEngine
from .enroot import Enroot
from .limits import STORES, refusals
from .oci_bundle import OciBundle
from .podman import Podman, PodmanHpc
from .pyxis import Pyxis
from .shifter import Shifter

__all__ = [
    "DATA_TARGET",
    "RUNTIMES",
    "STORES",
    "argv",
    "data_target",
    "exports",
    "files",
    "once",
    "own",
    "prepare",
    "python",
    "refusals",
]

RUNTIMES: Mapping[str, Runtime] = {
    "apptainer": Apptainer(),
    "singularity": Apptainer(),
    "shifter": Shifter(),
    "podman": Podman(),
    "podman-hpc": PodmanHpc(),
    "pyxis": Pyxis(),
    "enroot": Enroot(),
    "oci-bundle": OciBundle(),
    "container-engine": ContainerEngine(),
    "none": NoRuntime(),
}
DATA_TARGET = "/data"


def argv(plan: Plan, run_dir: str) -> list[str]:
    """Return the tokens that put a command into the image; none without a container."""
    return RUNTIMES[plan.runtime].argv(plan, _binds(plan, run_dir), _fixed(plan, run_dir))


def files(plan: Plan, run_dir: str) -> dict[str, str]:
    """Return what the runtime reads in the run's folder, by its path there."""
    runtime = RUNTIMES[plan.runtime]
    names = [*_fixed(plan, run_dir), *(name for name, _ in plan.spec.env)]
    names += [v.name for v in plan.variables if v.where == "image" and v.name not in names]
    text = runtime.config(plan, _binds(plan, run_dir), names)
    return {runtime.config_file: text} if text else {}


def _binds(plan: Plan, run_dir: str) -> tuple[BindMount, ...]:
    return (*plan.binds, *_of_host_mpi(plan), BindMount(run_dir, run_dir))


def once(plan: Plan, run_dir: str) -> list[str]:
    """Return the tokens that put one command of a job's shell into the image."""
    step = ["srun", "--nodes=1", "--ntasks=1", "--overlap"]
    return [*(step if RUNTIMES[plan.runtime].by_srun else []), *argv(plan, run_dir)]


def exports(plan: Plan, run_dir: str) -> list[tuple[str, str]]:
    """Return what the job exports for the container, each with its value as bash reads it.

    Where the runtime takes values as options (`argv`) those are not among them.
    """
    defaults = tuple(v for v in plan.variables if v.where == "image" and not v.forced)
    return RUNTIMES[plan.runtime].exports(plan, defaults, _fixed(plan, run_dir))


def prepare(plan: Plan) -> list[str]:
    """Return what has to run once on each node before the ranks; mostly nothing."""
    return RUNTIMES[plan.runtime].prepare(plan)


def own(plan: Plan) -> list[tuple[str, str]]:
    """Return what a private file exports for the user's own variables, which win over all."""
    return RUNTIMES[plan.runtime].own(plan)


def python(plan: Plan) -> str:
    """Return the Python of the image, or of the environment by its full path."""
    return f"{plan.spec.image}/bin/python" if plan.runtime == "none" else "python3"


def _of_host_mpi(plan: Plan) -> list[BindMount]:
    """Return the mounts of the host's MPI, given as SOURCE or SOURCE:TARGET."""
    found = []
    for text in plan.host_mpi.binds if plan.host_mpi else ():
        source, _, target = text.partition(":")
        found.append(BindMount(source, target or source, read_only=True))
    return found


def data_target(dataset: Dataset) -> str:
    """Return where the ranks see a dataset in a container."""
    return f"{DATA_TARGET}/{dataset.name}" if dataset.name else DATA_TARGET


def _data_dir(plan: Plan) -> str:
    """Return where trainers look: the only dataset, or the folder of several."""
    first, *others = plan.spec.data
    if plan.runtime == "none":
        return source(first, plan.staged)
    return DATA_TARGET if others else data_target(first)


def _fixed(plan: Plan, run_dir: str) -> dict[str, str]:
    """Return the variables that win within, but for those that the user sets."""
    found = {"PYTHONNOUSERSITE": "1", "OUTPUT_DIR": run_dir}
    if plan.spec.data:
        found["DATA_DIR"] = _data_dir(plan)
    if plan.host_mpi and plan.host_mpi.library_path:
        found["LD_LIBRARY_PATH"] = Expanded(plan.host_mpi.library_path)
    found.update({v.name: v.value for v in plan.variables if v.where == "image" and v.forced})
    return {name: value for name, value in found.items() if name not in dict(plan.spec.env)}
