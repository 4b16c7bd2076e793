"""Every setting of a launch, once: its name, words and kind.

Flags, keys of files and variables are made from it.

Names are Slurm's, Apptainer's and horovodrun's own long options, without the dashes.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..schedulers import SCHEDULERS


@dataclass(frozen=True)
class Setting:
    """One setting.

    `kind` is int, number, text, switch (true or false) or list; `words` are extra flag names;
    `group` is one of GROUPS. `sbatch` names Slurm's input variable of sbatch for the same thing.
    """

    name: str
    kind: str
    group: str
    help: str
    words: tuple[str, ...] = ()
    metavar: str = ""
    choices: tuple[str, ...] = ()
    sbatch: str = ""


# Headings of the groups, in --help and the reference.
GROUPS = {
    "slurm": "Resources",
    "job": "Job",
    "container": "Image and data",
    "horovod": "Horovod and MPI",
    "runner": "Runner",
}
JOB = ("job-name", "output", "dependency", "requeue", "requeue-limit", "signal", "comment")


def _slurm(name: str, help: str, kind: str = "text", **more: str) -> Setting:
    short = more.get("short", "")
    words = tuple(more.get("words", "").split()) + ((short,) if short else ())
    group = "job" if name in JOB else "slurm"
    return Setting(
        name, kind, group, help, words, more.get("metavar", ""), sbatch=more.get("sbatch", "")
    )


SLURM = (
    _slurm("nodes", "number of nodes", "int", short="-N"),
    _slurm("ntasks", "number of ranks in all", "int", short="-n", words="-np"),
    _slurm("ntasks-per-node", "ranks on each node", "int", words="--nproc-per-node"),
    _slurm("cpus-per-task", "CPUs for each rank", "int", short="-c"),
    _slurm("gpus", "GPUs in all", short="-G", metavar="[TYPE:]N", sbatch="SBATCH_GPUS"),
    _slurm(
        "gpus-per-node",
        "GPUs on each node",
        metavar="[TYPE:]N",
        sbatch="SBATCH_GPUS_PER_NODE",
    ),
    _slurm(
        "gpus-per-task",
        "GPUs that each rank alone sees",
        metavar="[TYPE:]N",
        sbatch="SBATCH_GPUS_PER_TASK",
    ),
    _slurm("gres", "generic resources on each node", metavar="gpu:N", sbatch="SBATCH_GRES"),
    _slurm(
        "time",
        "time limit",
        short="-t",
        metavar="[D-]HH:MM:SS",
        sbatch="SBATCH_TIMELIMIT",
    ),
    _slurm("partition", "partition", short="-p", sbatch="SBATCH_PARTITION"),
    _slurm("account", "account to charge", short="-A", sbatch="SBATCH_ACCOUNT"),
    _slurm("qos", "quality of service", short="-q", sbatch="SBATCH_QOS"),
    _slurm("constraint", "node features", short="-C", sbatch="SBATCH_CONSTRAINT"),
    _slurm("job-name", "name of the job", short="-J", sbatch="SBATCH_JOB_NAME"),
    _slurm("output", "file for the job's output", short="-o", sbatch="SBATCH_OUTPUT"),
    _slurm("mem", "memory on each node", metavar="SIZE[K|M|G|T]", sbatch="SBATCH_MEM_PER_NODE"),
    _slurm("nodelist", "nodes to use", short="-w"),
    _slurm("exclude", "nodes not to use", short="-x"),
    _slurm("exclusive", "whole nodes", "switch", sbatch="SBATCH_EXCLUSIVE"),
    _slurm(
        "overcommit",
        "several ranks on one CPU",
        "switch",
        short="-O",
        sbatch="SBATCH_OVERCOMMIT",
    ),
    _slurm(
        "distribution",
        "how ranks go to nodes",
        short="-m",
        metavar="block|cyclic|...",
        sbatch="SBATCH_DISTRIBUTION",
    ),
    _slurm("reservation", "reservation", sbatch="SBATCH_RESERVATION"),
    _slurm("dependency", "jobs to wait for", short="-d"),
    _slurm(
        "requeue",
        "queue again when stopped early, and go on from the checkpoint",
        "switch",
        sbatch="SBATCH_REQUEUE",
    ),
    _slurm("requeue-limit", "restarts at most (default: 10)", "int"),
    _slurm(
        "signal",
        "warn the ranks so long before the time limit",
        metavar="[B:]USR1[@SECONDS]",
        sbatch="SBATCH_SIGNAL",
    ),
    _slurm("comment", "comment (mandatory on some sites)"),
)
CONTAINER = (
    Setting("image", "text", "container", "a .sif file, a sandbox folder, a name, or a URI"),
    Setting("bind", "list", "container", "folder to bind", ("-B",), metavar="SRC[:DST[:ro]]"),
    Setting(
        "env",
        "list",
        "container",
        "variable for the trainer; without a value it is taken from here",
        metavar="NAME[=VALUE]",
    ),
    Setting(
        "nv", "switch", "container", "NVIDIA driver in the image (default: when GPUs are asked)"
    ),
    Setting("rocm", "switch", "container", "AMD driver in the image (default: as for --nv)"),
    Setting(
        "runtime",
        "text",
        "container",
        "what runs the image; none: a virtual or conda environment",
        choices=("auto", "apptainer", "singularity", "shifter", "podman-hpc", "none"),
    ),
    Setting(
        "data",
        "list",
        "container",
        "dataset, read-only at /data or /data/NAME: a folder, a squashfs file, or a known name",
        metavar="[NAME=]PATH",
    ),
    Setting(
        "stage-data",
        "text",
        "container",
        "copy the data to each node's own scratch first (default: none)",
        choices=("none", "node-local", "auto"),
    ),
    Setting(
        "stage-image",
        "text",
        "container",
        "send the image to each node's own scratch first, and unpack it there (default: none)",
        choices=("none", "node-local", "unpack", "auto"),
    ),
    Setting("module", "list", "container", "environment module to load in the job"),
)
HOROVOD = (
    Setting(
        "controller",
        "text",
        "horovod",
        "who starts and steers Horovod",
        choices=("auto", "mpi", "gloo"),
    ),
    Setting(
        "launcher",
        "text",
        "horovod",
        "who starts the ranks",
        choices=("auto", "srun", "mpirun", "mpiexec", "horovodrun", "local"),
    ),
    Setting("mpi", "text", "horovod", "type for srun --mpi=", metavar="TYPE"),
    Setting("host-mpi", "switch", "horovod", "the host's MPI libraries in the image"),
    Setting("cpu-bind", "text", "horovod", "how srun binds ranks to CPUs", metavar="TYPE"),
    Setting("network-interfaces", "text", "horovod", "interface for Gloo", metavar="NAME"),
    Setting(
        "timeline-filename",
        "text",
        "horovod",
        "write Horovod's timeline: a name in the run's folder, or a path",
        metavar="FILE",
    ),
    Setting(
        "autotune", "switch", "horovod", "let Horovod try out its settings (log: autotune.csv)"
    ),
    Setting(
        "fusion-threshold-mb",
        "int",
        "horovod",
        "tensors up to this size travel together",
        metavar="MB",
    ),
    Setting(
        "cycle-time-ms", "number", "horovod", "how often Horovod looks for tensors", metavar="MS"
    ),
    Setting(
        "start-timeout",
        "int",
        "horovod",
        "how long ranks wait for each other at the start",
        metavar="SECONDS",
    ),
)
RUNNER = (
    Setting(
        "scheduler",
        "text",
        "runner",
        "where to run",
        choices=("auto", *SCHEDULERS),
    ),
    Setting("site", "text", "runner", "the site's profile (default: found)", metavar="NAME"),
    Setting("runs-dir", "text", "runner", "folder for the runs (default: ./runs)", metavar="DIR"),
    Setting(
        "stall-after",
        "int",
        "runner",
        "say which ranks lag when there was no step for so long (default: 300)",
        metavar="SECONDS",
    ),
    Setting("sbatch-arg", "list", "runner", "any other option for sbatch", metavar="ARG"),
    Setting("srun-arg", "list", "runner", "any other option for srun", metavar="ARG"),
    Setting(
        "apptainer-arg", "list", "runner", "any other option for apptainer exec", metavar="ARG"
    ),
)
SETTINGS = {setting.name: setting for setting in SLURM + CONTAINER + HOROVOD + RUNNER}
