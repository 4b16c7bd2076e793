"""Plan -> the text of the batch script. The one place that joins and quotes tokens."""

from __future__ import annotations

import shlex
from dataclasses import fields

from . import __version__, launchers, runtimes
from .jobs import JobPaths
from .model import Plan, Resources
from .plan import DATA_TARGET

# Of the login shell, these would lead the image's Python and loader to the host's files.
# LD_LIBRARY_PATH is not among them: srun may need it, and apptainer never passes it on.
LEAKS = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE", "LD_PRELOAD")

EXIT_NOT_VERIFIED = 81

RECORD_THE_END = """\
# Leave the exit code in the run's folder: it outlives the scheduler's memory of the job.
finish() {
  printf '{"exit_code": %d, "time": %d}\\n' "$?" "$(date +%s)" > "$run/exit.json.part"
  mv "$run/exit.json.part" "$run/exit.json"
}
rm -rf "$run/failures" "$run/exit.json" "$run/result.json"
trap finish EXIT
"""


def render(plan: Plan, paths: JobPaths, cwd: str) -> str:
    """Return the whole script; `cwd` is the folder in which the job runs."""
    parts = ["#!/bin/bash"]
    if plan.scheduler == "slurm":
        parts += directives(plan, paths, cwd)
    parts += ["", *_header(plan, paths), f"run={shlex.quote(str(paths.root))}"]
    if plan.scheduler == "local":
        parts += [f"cd {shlex.quote(cwd)} || exit"]
    parts += ["", RECORD_THE_END.rstrip(), "", *_same_image(plan), *_modules(plan)]
    parts += [*_environment(plan), ""]
    return "\n".join([*parts, command(plan, paths), ""])


def directives(plan: Plan, paths: JobPaths, cwd: str) -> list[str]:
    """Return the #SBATCH lines."""
    spec = plan.spec
    output = spec.output or str(paths.log).replace("%", "%%")
    options = [f"--job-name={spec.name}", f"--output={output}", f"--chdir={cwd}"]
    options += resource_options(spec.resources)
    return [f"#SBATCH {directive(option)}" for option in (*options, *spec.sbatch_args)]


def resource_options(resources: Resources) -> list[str]:
    """Return one long option for each resource that is asked for."""
    options = []
    for item in fields(resources):
        value = getattr(resources, item.name)
        name = "--" + item.name.replace("_", "-")
        if value is True:
            options.append(name)
        elif value is not None and value is not False:
            options.append(f"{name}={value}")
    return options


def directive(option: str) -> str:
    """Quote an option as sbatch reads its own lines: double quotes, backslash before them."""
    if not any(char in option for char in " \t\"'\\#"):
        return option
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _header(plan: Plan, paths: JobPaths) -> list[str]:
    lines = [f"# Written by runner {__version__}."]
    if plan.scheduler == "slurm":
        lines.append(f"# Submit it again by hand: sbatch {shlex.quote(str(paths.script))}")
    return lines + [f"# {d.what}: {d.value} ({d.reason})" for d in plan.decisions]


def _same_image(plan: Plan) -> list[str]:
    """Return the check that the image is still the file that the policy allowed."""
    if not plan.verified_digest:
        return []
    image, digest = shlex.quote(str(plan.spec.image)), plan.verified_digest.partition(":")[2]
    return [
        f'if [ "$(sha256sum < {image})" != "{digest}  -" ]; then',
        f"  echo runner: {image} is no longer the file that the policy allowed >&2",
        f"  exit {EXIT_NOT_VERIFIED}",
        "fi",
    ]


def _modules(plan: Plan) -> list[str]:
    return [f"module load {shlex.quote(name)}" for name in plan.spec.modules]


def _environment(plan: Plan) -> list[str]:
    """Return what keeps the host out, then defaults that give way, then the user's own."""
    lines = [f"unset {' '.join(LEAKS)}"]
    threads = plan.spec.resources.cpus_per_task or 1
    lines.append(f'export OMP_NUM_THREADS="${{OMP_NUM_THREADS:-{threads}}}"')
    if plan.controller == "mpi":
        # Ranks in separate user namespaces may not copy from each other's memory.
        name = "OMPI_MCA_btl_vader_single_copy_mechanism"
        lines.append(f'export {name}="${{{name}:-none}}"')
    prefix = runtimes.ENV_PREFIX[plan.runtime]
    # Otherwise apptainer has a shell expand each value (singularity understands it from 3.10).
    lines.append(f"export {prefix.removesuffix('ENV_')}_NO_EVAL=1")
    lines += [f"export {prefix}PYTHONNOUSERSITE=1", f'export {prefix}OUTPUT_DIR="$run"']
    if plan.spec.data:
        lines.append(f"export {prefix}DATA_DIR={DATA_TARGET}")
    return lines + [f"export {prefix}{name}={shlex.quote(text)}" for name, text in plan.spec.env]


def command(plan: Plan, paths: JobPaths) -> str:
    """Return the line that starts the ranks, one group of tokens to a line for the reader."""
    shim = ["python3", str(paths.code / "rank"), *launchers.shim_options(plan)]
    shim += ["--controller", plan.controller]
    if plan.spec.interface:
        shim += ["--interface", plan.spec.interface]
    if plan.nv:
        shim += ["--nv", *(["--driver", plan.driver] if plan.driver else [])]
    shim += ["--run-dir", str(paths.root), "--"]
    container = runtimes.exec_argv(plan, str(paths.root))
    starts = [*launchers.inside(plan), *shim]
    groups = [launchers.outside(plan), container, starts, _trainer(plan)]
    return " \\\n  ".join(shlex.join(group) for group in groups if group)


def _trainer(plan: Plan) -> list[str]:
    trainer = plan.spec.trainer
    program = ["-m", trainer.module] if trainer.module else [str(trainer.file)]
    return [*program, *trainer.args]
