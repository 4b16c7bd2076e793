"""Rules about containers: what the image sees of the host, and what it does not."""

from __future__ import annotations

import os
from pathlib import Path

from runners.core.errors import RunnerError
from runners.core.progress import Listener
from runners.launching import gather

from ..programs import APPTAINER, STARTERS, is_python, names
from ..script import Script
from ..step import JobStep, runs_python
from .rule import Places, rule

# Words of sites with AMD's GPUs, whose devices' files are in each container, and ROCm in the image.
AMD = names("rocm amdgpu /appl/local/ lumi mi250 mi300 hip_visible")
HOST_COMMANDS = names("scontrol srun sbatch squeue sinfo sacct scancel")
SETS_UP = "/appl/local/"  # LUMI's images, whose runscript is documented to run a command
COMPILERS = names("gcc intel intel-oneapi nvhpc cuda cudatoolkit cudnn nccl llvm")
PYTHONS = names("python anaconda anaconda3 miniconda miniconda3 miniforge3 pytorch")
SWITCHES = names("APPTAINER_NV APPTAINER_ROCM SINGULARITY_NV SINGULARITY_ROCM")


def _decided(step: JobStep) -> str:
    """Return the options that a container has where a condition is true."""
    return " ".join(text for _, text in step.dropped)


@rule
def nv_missing(script: Script) -> Places:
    text = script.text.lower()
    known = any(step.container.has("nv") for step in script.steps)  # the others want no GPU
    if not script.job.wants_gpus or known or any(word in text for word in AMD):
        return
    for step in script.steps:
        layer = step.container
        wrapped = layer.name.endswith("_wrapper")  # it adds what the module's image needs
        by_hand = any("/driver" in o.text or "nvidia" in o.text for o in layer.all("bind"))
        given = wrapped or by_hand or layer.has("rocm", "nvccli") or SWITCHES & set(step.variables)
        unsure = step.problems or "--nv" in _decided(step)
        if layer.name in APPTAINER and not (given or unsure):
            what = "--nv is missing: the container sees no GPU"
            yield layer.line, what, f"{layer.name} {step.action} --nv ..."


@rule
def mpirun_in_container(script: Script) -> Places:
    for step in script.steps if (script.job.nodes or 1) > 1 else ():
        container, inner = step.container, step.starter
        if container and container is step.layers[0] and inner and inner.name != "srun":
            what = f"{inner.name} within the container finds no srun there: an error, or all ranks"
            right = f"srun --mpi=pmix {container.name} exec ... (no {inner.name})"
            yield inner.line, f"{what} on the first node", right


@rule
def host_command_in_container(script: Script) -> Places:
    for step in script.steps:
        container = step.container
        mounts_slurm = "slurm" in " ".join(map(str, container.values("container-mounts")))
        of_pyxis = step.starter.has("container-image") and not mounts_slurm
        if not of_pyxis and container.name not in (*APPTAINER, "podman-hpc", "shifter"):
            continue
        missing = HOST_COMMANDS
        known = container.has("nv", "nvccli") or "--nv" in _decided(step)
        if container.name in APPTAINER and not known:
            missing |= {"nvidia-smi"}
        inside = step.inner if step.depth("shell") > step.depth("container") else ()
        layers = step.layers[step.depth("container") + 1 :]
        for program in (*inside, *(layer for layer in layers if layer.name == "srun")):
            if program.name in missing:
                what = f"{program.name} is not in the container"
                yield program.line, what, f"run {program.name} before the container starts"


@rule
def contain_shared_memory(script: Script) -> Places:
    for step in script.steps:
        layer = step.container
        binds = [option.text for option in layer.all("bind", "mount")]
        binds += [value.text for name, value in step.variables.items() if "BIND" in name]
        bound = any("/dev/shm" in bind for bind in [*binds, _decided(step)])
        if layer.has("contain", "containall") and runs_python(step) and not bound:
            what = "--contain gives 64 MB of /dev/shm: data loaders with workers fail"
            yield layer.line, what, "leave out --contain, or add --bind /dev/shm"


@rule
def runscript(script: Script) -> Places:
    for step in script.steps:
        layer = step.container
        program = runs_python(step) or any(layer.kind != "container" for layer in step.layers[1:])
        sets_up = step.image is not None and step.image.text.startswith(SETS_UP)
        if layer.name in APPTAINER and step.action == "run" and program and not sets_up:
            what = f"{layer.name} run depends on the image's runscript"
            yield layer.line, what, f"{layer.name} exec"


@rule
def modules_before_container(script: Script) -> Places:
    first = {step.layers[0].name for step in script.steps if step.container}
    on_host = not all(step.container for step in script.steps)
    if not script.steps or on_host or first & (STARTERS.keys() - {"srun"}):
        return  # the host's mpirun, or a step without container, may need them
    python = any(
        is_python(command.name) or command.name == "pip" for command in script.content.commands
    )
    useless = COMPILERS if python else COMPILERS | PYTHONS
    by_line: dict[int, list[str]] = {}
    for name, line in script.modules(script.steps[-1].command.order).items():
        if name.partition("/")[0].lower() in useless and "singularity" not in name:
            by_line.setdefault(line, []).append(name)
    for line, modules in by_line.items():
        text, are = ", ".join(modules), "is" if len(modules) == 1 else "are"
        what = f"{text} {are} not used in the container"
        yield line, what, f"leave out {text}, if no other module needs it"


@rule
def mpi_plugin(script: Script) -> Places:
    for step in script.steps:
        mpi, image = step.starter.text("mpi"), step.image
        if image is None or not image.portable or mpi in ("", "none") or "$" in mpi:
            continue
        path = Path(os.path.expandvars(image.text))
        if path.is_file():
            yield from _planned(step.line, path, mpi)


def _planned(line: int, image: Path, mpi: str) -> Places:
    """Yield what the plan refuses with this --mpi=, and not with the one that it takes itself."""
    given = {"image": str(image), "launcher": "srun", "controller": "mpi", "ntasks": 2}
    choices = (given, {**given, "mpi": mpi})
    try:
        free, chosen = (gather.plan("bash", ("-c", "true"), c, True, Listener()) for c in choices)
    except RunnerError:
        return  # nothing can be told of this image here
    anyway = {refusal.id for refusal in free.refusals}
    for refusal in chosen.refusals:
        if refusal.id not in anyway:
            right = f"--mpi={free.wireup.mpi}" if free.wireup.mpi else refusal.evidence
            yield line, refusal.what, right
