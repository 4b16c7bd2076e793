"""Sets a rank's environment: what it needs in a container, how ranks meet, and limits."""

from __future__ import annotations

import json
import os
import pwd
import resource
from collections.abc import Mapping, MutableMapping, Sequence

from ...contract.parts import NO_DISPLAY
from ..task import Task
from .startup import NAMELESS

TIMEOUT = "HOROVOD_GLOO_TIMEOUT_SECONDS"
SECONDS_FOR_ALL_RANKS_TO_MEET = 60
# Horovod's Gloo connects each pair for its world and again for its set of all processes, so a rank
# needs twice as many as there are ranks; rank 0's shim has a connection from each. The spare ones
# are the trainer's, for whom the usual limit was enough.
FOR_EACH_RANK, SPARE = 2, 1024


def settle(run_dir: str, env: MutableMapping[str, str]) -> None:
    """Correct the environment before anything else runs.

    A runtime, or an image's own environment, may lose OUTPUT_DIR.
    """
    env.setdefault("OUTPUT_DIR", run_dir)
    env.setdefault(*NO_DISPLAY)
    _name_user(env)


def _name_user(env: MutableMapping[str, str]) -> None:
    """Set the variables that getpass reads where no passwd file or directory has this user."""
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        names = (env.get(name) for name in ("USER", "LOGNAME", "SLURM_JOB_USER"))
        name = next(filter(None, names), f"uid{os.getuid()}")
        env[NAMELESS] = name
        env.setdefault("USER", name)
        env.setdefault("LOGNAME", name)


def torch_place(task: Task) -> dict[str, str]:
    """Return PyTorch's variables for a rank. They override the user's.

    A value that was exported where the job was submitted would be the same on all ranks.
    """
    return {
        "RANK": str(task.rank),
        "WORLD_SIZE": str(task.size),
        "LOCAL_RANK": str(task.local_rank),
        "LOCAL_WORLD_SIZE": str(task.local_size),
        "GROUP_RANK": str(task.node),
    }


def launcher_variables(task: Task) -> dict[str, str]:
    """Return the variables that Open MPI's mpirun and sbatch set, and programs read.

    `srun --mpi=pmix` does not set the first. Lightning takes SLURM_NTASKS_PER_NODE for the number
    of its devices.
    """
    return {
        "OMPI_COMM_WORLD_RANK": str(task.rank),
        "OMPI_COMM_WORLD_SIZE": str(task.size),
        "OMPI_COMM_WORLD_LOCAL_RANK": str(task.local_rank),
        "OMPI_COMM_WORLD_LOCAL_SIZE": str(task.local_size),
        **({"SLURM_NTASKS_PER_NODE": str(task.local_size)} if task.launcher == "srun" else {}),
    }


def master(address: str, port: int, interface: str, env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which PyTorch's ranks meet, without those that the user has set.

    The user may set address or port alone: rank 0 listens there too.
    """
    variables = {"GLOO_SOCKET_IFNAME": interface} if interface else {}
    if address:
        variables.update(MASTER_ADDR=address, MASTER_PORT=str(port))
    return {name: value for name, value in variables.items() if name not in env}


def tf_config(servers: Sequence[str], rank: int) -> dict[str, str]:
    """Return TF_CONFIG for a cluster of workers, each a rank (TensorFlow's distributed guide)."""
    task = {"type": "worker", "index": rank}
    return {"TF_CONFIG": json.dumps({"cluster": {"worker": list(servers)}, "task": task})}


def horovod_over_gloo(task: Task) -> dict[str, str]:
    """Return the variables of `task` in a Gloo world; address, port and interface come later.

    Both CONTROLLER and CPU_OPERATIONS are needed: one alone aborts or crashes in a build that
    also has MPI (0.28.1). Horovod's own time-out is 30 s whatever the number of ranks.
    """
    return {
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_RANK": str(task.rank),
        "HOROVOD_SIZE": str(task.size),
        "HOROVOD_LOCAL_RANK": str(task.local_rank),
        "HOROVOD_LOCAL_SIZE": str(task.local_size),
        "HOROVOD_CROSS_RANK": str(task.cross_rank),
        "HOROVOD_CROSS_SIZE": str(task.cross_size),
        "HOROVOD_HOSTNAME": task.host,
        TIMEOUT: str(meeting_seconds(task.size)),
    }


def meeting_seconds(size: int) -> int:
    """Return how long the ranks wait for each other: the user's value, or more for more ranks."""
    given = os.environ.get(TIMEOUT, "")
    return int(given) if given.isdigit() else SECONDS_FOR_ALL_RANKS_TO_MEET + size


def compiled_code(run_dir: str) -> dict[str, str]:
    """Return where torch.compile and Triton keep what they compile: with the run's code.

    By default they run code from a folder in /tmp whose name any user can guess. They make their
    folder with the umask's mode; the run's code lies in one that only its owner can enter.
    """
    folder = os.path.join(run_dir, "code", "compiled")
    return {"TORCHINDUCTOR_CACHE_DIR": folder, "TRITON_CACHE_DIR": os.path.join(folder, "triton")}


def allow_files(ranks: int) -> None:
    """Raise the soft limit of open files to what `ranks` ranks need, within the hard limit.

    Slurm copies it from the login node (PropagateResourceLimits), where it mostly is 1,024.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = FOR_EACH_RANK * ranks + SPARE
    if hard != resource.RLIM_INFINITY:
        needed = min(needed, hard)
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def no_core_files() -> None:
    """Forbid core files, which are as large as the rank's memory and have all secrets in them.

    This sets the soft limit only: the trainer may raise it.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
