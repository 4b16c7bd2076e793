"""Rules about containers: what the image sees of the host, and what it does not."""

from __future__ import annotations

from ..programs import is_python
from ..script import Script
from ..steps import Layer, Step
from .rule import Places, rule

APPTAINER = ("apptainer", "singularity")
# Words of sites with AMD's GPUs, whose devices' files are in each container, and ROCm in the image.
AMD = ("rocm", "amdgpu", "/appl/local/", "lumi", "mi250", "mi300", "hip_visible")
HOST_COMMANDS = ("scontrol", "srun", "sbatch", "squeue", "sinfo", "sacct", "scancel")
COMPILERS = (
    *("gcc", "intel", "intel-oneapi", "nvhpc", "cuda", "cudatoolkit", "cudnn", "nccl", "llvm"),
)
PYTHONS = ("python", "anaconda", "anaconda3", "miniconda", "miniconda3", "miniforge3", "pytorch")


def _containers(script: Script) -> list[tuple[Step, Layer]]:
    pairs = [(step, step.layer("container")) for step in script.steps]
    return [(step, layer) for step, layer in pairs if layer is not None]


@rule("nv-missing")
def nv_missing(script: Script) -> Places:
    text = script.text.lower()
    if not script.job.wants_gpus or any(word in text for word in AMD):
        return
    for step, layer in _containers(script):
        variables = {**step.command.exports, **step.command.given}
        by_variable = any(
            f"{name.upper()}_{kind}" in variables for name in APPTAINER for kind in ("NV", "ROCM")
        )
        given = layer.options.has("nv", "rocm", "nvccli") or layer.options.problem
        if layer.name in APPTAINER and not by_variable and not given:
            yield (
                layer.line,
                "--nv is missing: the container sees no GPU",
                f"{layer.name} {step.action} --nv ...",
            )


@rule("mpirun-in-container")
def mpirun_in_container(script: Script) -> Places:
    if (script.job.nodes or 1) == 1:
        return
    for step, container in _containers(script):
        inner = step.layers[step.place("container") + 1 :]
        starter = next((layer for layer in inner if layer.kind == "starter"), None)
        if starter is not None and step.layers[0] is container and starter.name != "srun":
            what = (
                f"{starter.name} within the container finds no srun there: an error, or all ranks"
                " on the first node"
            )
            yield (
                starter.line,
                what,
                f"srun --mpi=pmix {container.name} exec ... (no {starter.name})",
            )


@rule("host-command-in-container")
def host_command_in_container(script: Script) -> Places:
    for step, container in _containers(script):
        if container.name not in (*APPTAINER, "podman-hpc", "shifter"):
            continue
        missing: tuple[str, ...] = HOST_COMMANDS
        if container.name in APPTAINER and not container.options.has("nv", "nvccli"):
            missing = (*HOST_COMMANDS, "nvidia-smi")
        inside = step.inner if step.place("shell") > step.place("container") else ()
        layers = step.layers[step.place("container") + 1 :]
        names = [(command.name, command.line) for command in inside]
        names += [(layer.name, layer.line) for layer in layers if layer.name == "srun"]
        for name, line in names:
            if name in missing:
                yield (
                    line,
                    f"{name} is not in the container",
                    f"run {name} before the container starts",
                )


@rule("contain-shared-memory")
def contain_shared_memory(script: Script) -> Places:
    for step, layer in _containers(script):
        own = layer.options.has("contain", "containall")
        binds = [option.text for option in layer.options.all("bind", "mount")]
        variables = {**step.command.exports, **step.command.given}
        binds += [value.text for name, value in variables.items() if "BIND" in name]
        if (
            layer.name in APPTAINER
            and own
            and step.python
            and not any("/dev/shm" in b for b in binds)
        ):
            what = "--contain gives 64 MB of /dev/shm: data loaders with workers fail"
            yield layer.line, what, "leave out --contain, or add --bind /dev/shm"


@rule("runscript")
def runscript(script: Script) -> Places:
    for step, layer in _containers(script):
        program = step.python or any(each.kind != "container" for each in step.layers[1:])
        if layer.name in APPTAINER and step.action == "run" and program:
            what = f"{layer.name} run depends on the image's runscript"
            yield layer.line, what, f"{layer.name} exec"


@rule("modules-before-container")
def modules_before_container(script: Script) -> Places:
    outer = [step.layers[0] for step in script.steps if step.layer("container") is not None]
    host = any(each.kind == "starter" and each.name != "srun" for each in outer)
    if not outer or len(outer) < len(script.steps) or host:
        return  # the host's mpirun, or a step without container, may need them
    on_host = any(is_python(each.name) or each.name == "pip" for each in script.content.commands)
    useless = COMPILERS if on_host else (*COMPILERS, *PYTHONS)
    by_line: dict[int, list[str]] = {}
    for name, line in script.modules:
        if name.partition("/")[0].lower() in useless:
            by_line.setdefault(line, []).append(name)
    for line, modules in by_line.items():
        text = ", ".join(modules)
        are = "is" if len(modules) == 1 else "are"
        yield line, f"{text} {are} not used in the container", f"leave out {text}"


RULES = (
    nv_missing,
    mpirun_in_container,
    host_command_in_container,
    contain_shared_memory,
    runscript,
    modules_before_container,
)
