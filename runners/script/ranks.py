"""The command that starts the ranks, what is checked before it, and its ssh to other nodes. Pure.

The ssh in the container starts steps of the job (injob/ssh.py).
"""

from __future__ import annotations

import shlex

from .. import runtimes
from ..contract.exit_codes import EXIT_HOST_MPI, EXIT_NOT_VERIFIED
from ..contract.parts import AROUND, MPICHECK, RANK, SSH_AROUND
from ..core import gpus, quoting
from ..core.job_record import JobPaths
from ..core.model import GpuVendor, LauncherName
from ..core.plan import Plan
from ..core.quoting import Expanded
from ..schedulers import SCHEDULERS
from . import launchers

WITH_PYTHON = 'command -v "$0" > /dev/null && exec "$0" "$@"; shift 2; exec "$@"'
IMAGE_STAMP = "image-stamp"  # a file in the run's code/


def command(plan: Plan, paths: JobPaths) -> str:
    """Return the line that starts the ranks, one group of tokens to a line for the reader."""
    return _on_each_rank(plan, paths, _shim(plan, paths), [*plan.spec.trainer.command])


def one(plan: Plan, paths: JobPaths) -> str:
    """Return the line that runs the command of `enter` in the container, once.

    By its Python, if there is one, with a temporary folder of its own (injob/temporary.py).
    """
    inside = ["sh", "-c", WITH_PYTHON, runtimes.python(plan), str(paths.injob), AROUND]
    return quoting.join(["exec", *runtimes.argv(plan, str(paths.root)), *inside]) + ' "$@"'


def _on_each_rank(plan: Plan, paths: JobPaths, *inside: list[str]) -> str:
    start = launchers.LAUNCHERS[plan.launching.launcher](plan)
    container = runtimes.argv(plan, str(paths.root))
    if plan.launching.launcher is LauncherName.HOROVODRUN:  # it is the image's
        around = [runtimes.python(plan), str(paths.injob), AROUND]
        groups = [ssh_around(plan, paths), container, [*around, *start, *inside[0]], *inside[1:]]
    else:
        groups = [start, container, *inside]
    return " \\\n  ".join(quoting.join(group) for group in groups if group)


def _shim(plan: Plan, paths: JobPaths) -> list[str]:
    shim = [runtimes.python(plan), str(paths.injob), RANK, *launchers.shim_options(plan)]
    shim += ["--controller", plan.wireup.controller]
    if plan.network.interfaces:
        shim += ["--network-interfaces", ",".join(plan.network.interfaces)]
    if plan.gpus.vendor is GpuVendor.NVIDIA:
        shim += ["--nv", *(["--driver", plan.gpus.driver] if plan.gpus.driver else [])]
        shim += [] if _requests_gpus(plan) else ["--nv-alone"]
    shim += ["--cpu-level", plan.cpus.level] if plan.cpus.level else []
    shim += ["--errors"] if plan.spec.error else []
    if profiling := plan.spec.profiling:
        shim += ["--profile-with", profiling.command, "--profile-ranks", profiling.ranks]
        shim += ["--profile-tool", profiling.tool] if profiling.tool else []
    slurms = (*plan.spec.sbatch_args, *plan.spec.srun_args)
    shim += ["--core-files"] if any(arg.startswith("--propagate") for arg in slurms) else []
    shim += [] if plan.spec.gate else ["--no-gate"]
    shim += ["--tf-config"] if plan.spec.tf_config else []
    return [*shim, "--run-dir", str(paths.root), "--"]


def _requests_gpus(plan: Plan) -> bool:
    return bool(gpus.on_a_node(plan.resources)) or gpus.by_sbatch(plan.spec.sbatch_args)


def image_check(plan: Plan) -> list[str]:
    """Return the check that the image is still the file that was launched: its size and times.

    Where they are others the file is read: a link or `chmod` touches the change time. They are in a
    file of the run's, as a dry run may not know them yet. Of a copied image each node reads its own
    copy (injob/stage). A missing one the runtime reports.
    """
    if not plan.verified_digest or not plan.staging.image.leaves_shared:
        return []
    file, digest = shlex.quote(str(plan.spec.image.path)), plan.verified_digest.partition(":")[2]
    stamp = f"$(stat --dereference --format '%s %.9Y %.9Z' {file})"
    return [
        f'if [ -r {file} ] && [ "{stamp}" != "$(cat "$run/code/{IMAGE_STAMP}")" ] &&',
        f'  [ "$(sha256sum < {file})" != "{digest}  -" ]; then',
        f"  echo runner: {file} is no longer the file that was launched >&2",
        f"  exit {EXIT_NOT_VERIFIED}",
        "fi",
    ]


def prepare(plan: Plan) -> list[str]:
    """Return the line by which each node has the image, where the runtime has a store on each."""
    command = runtimes.prepare(plan)
    return [f"{quoting.join([*launchers.agents(plan), *command])} || exit"] if command else []


def host_mpi_check(plan: Plan, paths: JobPaths) -> list[str]:
    """Return the check that the ranks find the host's MPI in the image, and each other by it."""
    if plan.host_mpi is None:
        return []
    words = [MPICHECK, plan.launching.launcher, str(paths.root)]
    check = [runtimes.python(plan), str(paths.injob), *words]
    return [
        "# The host's MPI in the image, before the job proper: found, complete, and one world.",
        _on_each_rank(plan, paths, check) + " || {",
        '  echo "runner: the check of the host\'s MPI in the image failed, exit code $?" >&2',
        f"  exit {EXIT_HOST_MPI}",
        "}",
    ]


def ssh_nodes(plan: Plan) -> list[str]:
    """Return the lines that find the nodes; none for a job without such an ssh."""
    steps = SCHEDULERS[plan.launching.scheduler].STEPS
    if not plan.ssh or not steps:
        return []
    listed = steps.list_nodes(plan.resources.nodes)
    lines = [
        "# The nodes that `ssh` in the container reaches, by steps of this job.",
        f"nodes=$({listed} | paste -s -d , -)",
    ]
    if plan.launching.launcher is LauncherName.HOROVODRUN:
        slots = f":{launchers.per_node(plan)}"
        lines.append(f"hosts=${{nodes//,/{slots},}}{slots}")
    return lines


def ssh_around(plan: Plan, paths: JobPaths) -> list[str]:
    """Return the tokens before the command that has it; none for a job without one."""
    steps = SCHEDULERS[plan.launching.scheduler].STEPS
    if not plan.ssh or not steps:
        return []
    words = ["python3", str(paths.injob), SSH_AROUND, plan.launching.runtime, Expanded("$nodes")]
    return [*words, str(paths.enter), *steps.within(1), "--"]
