"""The variables of a trainer: options of the launch line, or what runner sets itself."""

from __future__ import annotations

from textwrap import shorten

from runners.core.command_line import without_secret

from . import container, trainer_arguments
from .directives import Directives
from .draft import LaunchLine
from .programs import CONTAINERS, PLACE
from .script import Script
from .step import JobStep, runs_python
from .words import ADDRESS, BRANCH, RUN, WHO_KNOWS, Word, compose, join

INTO_CONTAINERS = ("APPTAINERENV_", "SINGULARITYENV_")  # begin names of its variables
OF_HOST = ("LD_LIBRARY_PATH", "PATH", "LD_PRELOAD", "CPATH", "LIBRARY_PATH")
OF_TASK = ("PMI_", "PMIX_", "PALS_", "OMPI_COMM_WORLD_", "MV2_COMM_WORLD_")  # of the launcher
UNSET = {"NODE_RANK", "NNODES", "NUM_NODES", "NPROC_PER_NODE", "GPUS_PER_NODE"}  # of PLACE
MOST_SHOWN = 120  # signs of a value that is lost


def add(draft: LaunchLine, script: Script, step: JobStep) -> None:
    """Add the variables that the trainer gets, or say why one is not in the line."""
    given: dict[str, Word | None] = {**_of_directive(script.job), **step.outside.exports}
    given |= step.env
    for word in step.starter.values("x"):
        if "=" not in word.text:
            given.setdefault(word.text, None)
    placed: dict[tuple[int, str], list[str]] = {}
    for name, value in given.items():
        line, inside = value.line if value else step.line, _inside(name)
        plain = name if step.image is None else inside
        if inside != name and step.image is None and not _may_contain(step):
            draft.leave_out(line, f"{name}: only a container reads it")
        elif verb := _placed(script, step, inside, value):
            placed.setdefault((line, verb), []).append(inside)
        elif reason := _left_out(step, name, value) or _of_slurm(inside):
            draft.leave_out(line, f"{name}: {reason}")
        elif value is not None and _in_line(step, name, value):
            draft.leave_out(line, f"{name}: what it holds is in the line")
        elif value is None:
            draft.add("env", name, line)
        elif reason := _lost(step, name, value):
            draft.lose(line, f"{name}={shorten(value.text, MOST_SHOWN)}: {reason}")
        else:
            _variable(draft, plain, value, step.image is not None)
    for (line, verb), names in placed.items():
        subject = "such variable" if verb != "sets" else them(names)
        draft.leave_out(line, f"{', '.join(names)}: runner {verb} {subject}")


def _of_directive(job: Directives) -> dict[str, Word]:
    """Return the values that #SBATCH --export=ALL,NAME=VALUE sets."""
    parts = (part.split("=", 1) for word in job.values("export") for part in word.split(","))
    return {name.text: value[0] for name, *value in parts if value}


def _inside(name: str) -> str:
    """Return the name that a variable has in a container."""
    for prefix in INTO_CONTAINERS:
        name = name.removeprefix(prefix)
    return name


def _may_contain(step: JobStep) -> bool:
    """Whether a step may start a container in a way that is not known here."""
    names = {word.text.rpartition("/")[2] for word in step.program}
    return bool(names & CONTAINERS.keys()) or not runs_python(step)


def _in_line(step: JobStep, name: str, value: Word) -> bool:
    """Whether a value is words of the step's own command: export CMD="..."; srun $CMD."""
    words, command = value.text.split(), step.command.text.replace(f"{name}={value.text}", "")
    return len(words) > 1 and " ".join(words) in " ".join(command.split())


def _placed(script: Script, step: JobStep, name: str, value: Word | None) -> str:
    """Say what runner does with a variable that tells a rank its place; "" for another one."""
    cpus = (script.job.text("cpus-per-task") or "1", "$SLURM_CPUS_PER_TASK")
    if name in UNSET and (value is None or runs_python(step)):
        return "needs no"
    if name.startswith(OF_TASK):
        return "sets"
    of_cpus = name == "OMP_NUM_THREADS" and value and value.text in cpus
    return "sets" if of_cpus or name in PLACE - UNSET else ""


def _lost(step: JobStep, name: str, value: Word) -> str:
    """Say why the trainer cannot get a variable; "" where it can."""
    if name in UNSET:
        return f"runner sets no such variable; {step.names[0]} may read it"
    if name in OF_HOST and value.has(BRANCH):
        return WHO_KNOWS[BRANCH]
    if name in OF_HOST and (name != "LD_PRELOAD" or step.image is not None):
        return f"the trainer gets that of the {'modules' if step.image is None else 'image'}"
    if value.has(RUN) and step.agent and not trainer_arguments.without_agent(step):
        return "only the job knows it"
    return ""


def _left_out(step: JobStep, name: str, value: Word | None) -> str:
    """Say why a variable is not the launch line's; "" where it is, or is lost."""
    if value is not None and value.has(ADDRESS) and step.agent:
        return "it names nodes of the job, which runner knows"
    within = name in step.env and name not in step.command.given
    if name in OF_HOST and not within and (value is None or step.image is not None):
        outside = "that of the host stays outside of the container"
        return outside if step.image is not None else "the ranks' own"
    if name.startswith(("APPTAINER_", "SINGULARITY_")) and "BIND" not in name:
        return "runner sets Apptainer's own variables"
    return ""


def _of_slurm(name: str) -> str:
    return "runner passes it to srun" if name.startswith(("SRUN_", "SLURM_", "SBATCH_")) else ""


def them(names: list[str]) -> str:
    return "it" if len(names) == 1 else "them"


def _variable(draft: LaunchLine, name: str, value: Word, in_container: bool) -> None:
    if name in ("APPTAINER_BIND", "APPTAINER_BINDPATH", "SINGULARITY_BIND", "SINGULARITY_BINDPATH"):
        container.binds(draft, value, "apptainer")
    elif without_secret(f"{name}=x") == name and value.known:
        draft.add("env", name, value.line)
        draft.fill_in(value.line, f"{name}: a secret; export it before the launch")
    elif name == "HOROVOD_CONTROLLER" and value.known in ("gloo", "mpi"):
        draft.add("controller", value)
    elif name == "MODULEPATH":
        for folder in _own_folders(name, value):
            draft.add("module-use", folder)
    elif name == "PYTHONPATH":
        if not value.pieces:
            draft.lose(value.line, f"{name}=: the trainer gets that of the modules")
        elif folders := _own_folders(name, value):
            trainer_arguments.exports(draft, name, join(folders, ":", value.line))
            _path_before(draft, name, value, in_container)
    else:
        trainer_arguments.exports(draft, name, value)


def _path_before(draft: LaunchLine, name: str, value: Word, in_container: bool) -> None:
    """Say that what a list of folders held before is not in the line."""
    before = [piece.source for piece in value.unknown if name in piece.source]
    if before and in_container:
        draft.leave_out(value.line, f"{before[0]} in it: it stays outside of the container")
    elif before:
        text = f"{before[0]} in it, of modules and your shell: add to --env {name} what is needed"
        draft.lose(value.line, text)


def _own_folders(name: str, path: Word) -> list[Word]:
    """Return what a script adds to a list of folders, without what was in it before."""
    parts = [[p for p in part.pieces if name not in str(p)] for part in path.split(":")]
    return [compose(part, path.line) for part in parts if part]
