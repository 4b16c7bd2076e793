"""The table of all launch settings: name, help, type, flags.

Command-line options, configuration keys and environment variables are generated from it.

The names are the long options of Slurm, Apptainer and horovodrun, without the dashes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..contract.enums import Controller
from ..core.model import DataAccess, ImageAccess, LauncherName, RuntimeName, SchedulerName


@dataclass(frozen=True)
class Setting:
    """One setting.

    `kind` is int, number, text, switch (true or false) or list; `words` are extra flag names;
    `group` is a key of GROUPS, `sbatch` a value of SBATCH.
    """

    name: str
    help: str
    kind: str = "text"
    words: tuple[str, ...] = ()
    metavar: str = ""
    choices: tuple[str, ...] = ()
    sbatch: str = ""
    group: str = ""


# Headings of the groups, in --help and the reference.
GROUPS = {
    "slurm": "Resources",
    "job": "Job",
    "container": "Image and data",
    "horovod": "Horovod and MPI",
    "runner": "Runner",
}
# The input environment variables of sbatch for the same options.
AS_NAMED = (
    *("gpus", "gpus-per-node", "gpus-per-task", "gres", "partition", "account", "qos"),
    *("constraint", "job-name", "output", "error", "exclusive", "overcommit", "distribution"),
    *("reservation", "requeue", "signal"),
)
SBATCH = {
    "time": "SBATCH_TIMELIMIT",
    "mem": "SBATCH_MEM_PER_NODE",
    **{name: "SBATCH_" + name.upper().replace("-", "_") for name in AS_NAMED},
}
SLURM = (
    Setting("nodes", "number of nodes", "int", words=("-N",)),
    Setting("ntasks", "total number of ranks", "int", words=("-np", "-n")),
    Setting("ntasks-per-node", "number of ranks per node", "int", words=("--nproc-per-node",)),
    Setting("cpus-per-task", "CPUs per rank", "int", words=("-c",)),
    Setting("gpus", "total number of GPUs", words=("-G",), metavar="[TYPE:]N"),
    Setting(
        "gpus-per-node",
        "GPUs per node; 0: none (default for an image for GPUs: those of the nodes)",
        metavar="[TYPE:]N",
    ),
    Setting("gpus-per-task", "GPUs per rank; each rank sees only its own", metavar="[TYPE:]N"),
    Setting("gres", "generic resources per node", metavar="gpu:N"),
    Setting("time", "time limit", words=("-t",), metavar="[D-]HH:MM:SS"),
    Setting("partition", "partition", words=("-p",)),
    Setting("account", "account to charge for the job", words=("-A",)),
    Setting("qos", "quality of service", words=("-q",)),
    Setting("constraint", "required node features", words=("-C",)),
    Setting("mem", "memory per node", metavar="SIZE[K|M|G|T]"),
    Setting("nodelist", "nodes to use", words=("-w",)),
    Setting("exclude", "nodes to exclude", words=("-x",)),
    Setting("exclusive", "do not share nodes with other jobs", "switch"),
    Setting("overcommit", "allow several ranks per CPU", "switch", words=("-O",)),
    Setting(
        "distribution",
        "how ranks are distributed over nodes",
        words=("-m",),
        metavar="block|cyclic|...",
    ),
    Setting("reservation", "reservation to use"),
)
JOB = (
    Setting("job-name", "name of the job", words=("-J",)),
    Setting("output", "file for the job's standard output", words=("-o",)),
    Setting(
        "error",
        "additional file for the ranks' stderr; --output contains it as well",
        words=("-e",),
    ),
    Setting("dependency", "jobs to wait for before this one starts", words=("-d",)),
    Setting("requeue", "requeue an interrupted job and resume from its checkpoint", "switch"),
    Setting("requeue-limit", "maximum number of restarts (default: 10)", "int"),
    Setting(
        "signal",
        "send SIGUSR1 to the ranks this many seconds before the time limit",
        metavar="[B:]USR1[@SECONDS]",
    ),
    Setting("comment", "job comment (mandatory on some sites)"),
)
CONTAINER = (
    Setting(
        "image",
        "image: a .sif file, a sandbox folder, a name, or a URI"
        " (default: the Python of --module, or the active environment)",
    ),
    Setting(
        "bind", "path to bind into the container", "list", words=("-B",), metavar="SRC[:DST[:ro]]"
    ),
    Setting(
        "env",
        "environment variable for the trainer; without a value: copy the current one",
        "list",
        metavar="NAME[=VALUE]",
    ),
    Setting(
        "nv",
        "add the host's NVIDIA driver to the container (default: if GPUs are requested)",
        "switch",
    ),
    Setting("rocm", "add the host's AMD driver to the container (default: as for --nv)", "switch"),
    Setting(
        "runtime",
        "container runtime; none: use a virtual or conda environment instead",
        choices=("auto", *RuntimeName.words()),
    ),
    Setting(
        "data",
        "dataset: a folder, a squashfs file or a known name; mounted read-only at /data"
        " or /data/NAME",
        "list",
        metavar="[NAME=]PATH",
    ),
    Setting(
        "stage-data",
        "copy the dataset to node-local scratch first (default: none)",
        choices=(*DataAccess.words(), "auto"),
    ),
    Setting(
        "stage-image",
        "copy the image to node-local scratch, unpack it there, or mount it once per node",
        choices=(*ImageAccess.words(), "auto"),
    ),
    Setting(
        "module",
        "environment module to load in the job; OTHER if there is no NAME",
        "list",
        metavar="NAME[|OTHER]",
    ),
    Setting(
        "module-use", "folder with more modulefiles, as for `module use`", "list", metavar="DIR"
    ),
    Setting("module-purge", "unload all environment modules first", "switch"),
)
HOROVOD = (
    Setting(
        "controller",
        "Horovod controller: MPI or Gloo; none: Horovod is not used",
        choices=("auto", *Controller.words()),
    ),
    Setting(
        "launcher",
        "process launcher that starts the ranks",
        choices=("auto", *LauncherName.words()),
    ),
    Setting("mpi", "MPI plugin of srun: the value of srun --mpi", metavar="TYPE"),
    Setting("host-mpi", "use the host's MPI libraries in the container", "switch"),
    Setting(
        "cpu-bind", "how srun binds ranks to CPUs: the value of srun --cpu-bind", metavar="TYPE"
    ),
    Setting("network-interfaces", "network interface for Gloo", metavar="NAME"),
    Setting(
        "timeline-filename",
        "write a Horovod timeline (trace): a name in the run's folder, or a path",
        metavar="FILE",
    ),
    Setting("autotune", "let Horovod tune its parameters (log: autotune.csv)", "switch"),
    Setting("fusion-threshold-mb", "tensor fusion buffer size", "int", metavar="MB"),
    Setting("cycle-time-ms", "Horovod cycle time", "number", metavar="MS"),
    Setting("start-timeout", "how long to wait for all ranks to start", "int", metavar="SECONDS"),
)
RUNNER = (
    Setting(
        "gate",
        "fail unless all ranks join one process group: the world-size check (default: yes)",
        "switch",
    ),
    Setting("tf-config", "set TF_CONFIG for each rank, for MultiWorkerMirroredStrategy", "switch"),
    Setting("scheduler", "scheduler to submit to", choices=("auto", *SchedulerName.words())),
    Setting("site", "site profile (default: detected)", metavar="NAME"),
    Setting("runs-dir", "folder for the runs (default: ./runs)", metavar="DIR"),
    Setting(
        "stall-after",
        "report stalled ranks after SECONDS without progress (default: 300)",
        "int",
        metavar="SECONDS",
    ),
    Setting(
        "profile-with",
        "run the trainer under a profiler, such as 'nsys profile -o {output}'",
        metavar="COMMAND",
    ),
    Setting("profile-ranks", "ranks to profile (default: 0)", metavar="0,2-3|all"),
    Setting("sbatch-arg", "additional option for sbatch", "list", metavar="ARG"),
    Setting("srun-arg", "additional option for srun", "list", metavar="ARG"),
    Setting("apptainer-arg", "additional option for apptainer exec", "list", metavar="ARG"),
)
SETTINGS = {
    setting.name: replace(setting, group=group, sbatch=SBATCH.get(setting.name, ""))
    for group, rows in zip(GROUPS, (SLURM, JOB, CONTAINER, HOROVOD, RUNNER))
    for setting in rows
}
LISTS = frozenset(name for name, setting in SETTINGS.items() if setting.kind == "list")
