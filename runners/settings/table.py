"""Every setting of a launch, once: its name, words and kind.

Flags, keys of files and variables are made from it.

Names are Slurm's, Apptainer's and horovodrun's own long options, without the dashes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..core.site_profile import RUNTIMES
from ..injob.rank.agents import AGENTS
from ..schedulers import SCHEDULERS


@dataclass(frozen=True)
class Setting:
    """One setting.

    `kind` is int, number, text, switch (true or false) or list; `words` are extra flag names;
    `group` is one of GROUPS, `sbatch` of SBATCH.
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
JOB = (
    *("job-name", "output", "error", "dependency", "requeue", "requeue-limit", "signal", "comment"),
)
# Slurm's input variables of sbatch for the same things.
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
    Setting("ntasks", "number of ranks in all", "int", words=("-np", "-n")),
    Setting("ntasks-per-node", "ranks on each node", "int", words=("--nproc-per-node",)),
    Setting("cpus-per-task", "CPUs for each rank", "int", words=("-c",)),
    Setting("gpus", "GPUs in all", words=("-G",), metavar="[TYPE:]N"),
    Setting("gpus-per-node", "GPUs on each node", metavar="[TYPE:]N"),
    Setting("gpus-per-task", "GPUs that each rank alone sees", metavar="[TYPE:]N"),
    Setting("gres", "generic resources on each node", metavar="gpu:N"),
    Setting("time", "time limit", words=("-t",), metavar="[D-]HH:MM:SS"),
    Setting("partition", "partition", words=("-p",)),
    Setting("account", "account to charge", words=("-A",)),
    Setting("qos", "quality of service", words=("-q",)),
    Setting("constraint", "node features", words=("-C",)),
    Setting("job-name", "name of the job", words=("-J",)),
    Setting("output", "file for the job's output", words=("-o",)),
    Setting(
        "error",
        "file for what the ranks write to stderr, beside the output, which has it too",
        words=("-e",),
    ),
    Setting("mem", "memory on each node", metavar="SIZE[K|M|G|T]"),
    Setting("nodelist", "nodes to use", words=("-w",)),
    Setting("exclude", "nodes not to use", words=("-x",)),
    Setting("exclusive", "whole nodes", "switch"),
    Setting("overcommit", "several ranks on one CPU", "switch", words=("-O",)),
    Setting("distribution", "how ranks go to nodes", words=("-m",), metavar="block|cyclic|..."),
    Setting("reservation", "reservation"),
    Setting("dependency", "jobs to wait for", words=("-d",)),
    Setting("requeue", "queue again when stopped early, and go on from the checkpoint", "switch"),
    Setting("requeue-limit", "restarts at most (default: 10)", "int"),
    Setting("signal", "warn the ranks so long before the time limit", metavar="[B:]USR1[@SECONDS]"),
    Setting("comment", "comment (mandatory on some sites)"),
)
CONTAINER = (
    Setting("image", "a .sif file, a sandbox folder, a name, or a URI"),
    Setting("bind", "folder to bind", "list", words=("-B",), metavar="SRC[:DST[:ro]]"),
    Setting(
        "env",
        "variable for the trainer; without a value it is taken from here",
        "list",
        metavar="NAME[=VALUE]",
    ),
    Setting("nv", "NVIDIA driver in the image (default: when GPUs are asked)", "switch"),
    Setting("rocm", "AMD driver in the image (default: as for --nv)", "switch"),
    Setting(
        "runtime",
        "what runs the image; none: a virtual or conda environment",
        choices=("auto", *RUNTIMES),
    ),
    Setting(
        "data",
        "dataset, read-only at /data or /data/NAME: a folder, a squashfs file, or a known name",
        "list",
        metavar="[NAME=]PATH",
    ),
    Setting(
        "stage-data",
        "copy the data to each node's own scratch first (default: none)",
        choices=("none", "node-local", "auto"),
    ),
    Setting(
        "stage-image",
        "send the image to each node's own scratch, unpack it there, or mount it once a node",
        choices=("none", "node-local", "unpack", "mount", "auto"),
    ),
    Setting("module", "environment module to load in the job", "list", metavar="NAME[|OTHER]"),
    Setting("module-purge", "unload all environment modules before", "switch"),
)
HOROVOD = (
    Setting(
        "controller",
        "who starts and steers Horovod; none: it is not used",
        choices=("auto", "mpi", "gloo", "none"),
    ),
    Setting(
        "launcher",
        "who starts the ranks",
        choices=("auto", "srun", "mpirun", "mpiexec", "horovodrun", "local", *AGENTS),
    ),
    Setting("mpi", "type for srun --mpi=", metavar="TYPE"),
    Setting("host-mpi", "the host's MPI libraries in the image", "switch"),
    Setting("cpu-bind", "how srun binds ranks to CPUs", metavar="TYPE"),
    Setting("network-interfaces", "interface for Gloo", metavar="NAME"),
    Setting(
        "timeline-filename",
        "write Horovod's timeline: a name in the run's folder, or a path",
        metavar="FILE",
    ),
    Setting("autotune", "let Horovod try out its settings (log: autotune.csv)", "switch"),
    Setting("fusion-threshold-mb", "tensors up to this size travel together", "int", metavar="MB"),
    Setting("cycle-time-ms", "how often Horovod looks for tensors", "number", metavar="MS"),
    Setting(
        "start-timeout", "how long ranks wait for each other at the start", "int", metavar="SECONDS"
    ),
)
RUNNER = (
    Setting("gate", "the ranks must form one world, else the job fails (default: yes)", "switch"),
    Setting("tf-config", "TF_CONFIG for each rank, for MultiWorkerMirroredStrategy", "switch"),
    Setting("scheduler", "where to run", choices=("auto", *SCHEDULERS)),
    Setting("site", "the site's profile (default: found)", metavar="NAME"),
    Setting("runs-dir", "folder for the runs (default: ./runs)", metavar="DIR"),
    Setting(
        "stall-after",
        "say which ranks lag when there was no step for so long (default: 300)",
        "int",
        metavar="SECONDS",
    ),
    Setting("sbatch-arg", "any other option for sbatch", "list", metavar="ARG"),
    Setting("srun-arg", "any other option for srun", "list", metavar="ARG"),
    Setting("apptainer-arg", "any other option for apptainer exec", "list", metavar="ARG"),
)
SETTINGS = {
    setting.name: replace(
        setting, group="job" if setting.name in JOB else group, sbatch=SBATCH.get(setting.name, "")
    )
    for group, rows in zip(
        ("slurm", "container", "horovod", "runner"), (SLURM, CONTAINER, HOROVOD, RUNNER)
    )
    for setting in rows
}
