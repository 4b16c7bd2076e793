"""The programs that batch scripts start: launchers, containers, agents, and those that help."""

from __future__ import annotations

from . import options


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())


STARTERS = {
    "srun": options.SLURM,
    **dict.fromkeys(
        ("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "aprun", "ibrun"), options.MPIRUN
    ),
    "horovodrun": options.HOROVODRUN,
}
CONTAINERS = {
    **dict.fromkeys(("apptainer", "singularity"), options.APPTAINER),
    "shifter": options.SHIFTER,
    "podman-hpc": options.PODMAN,
    "podman": options.PODMAN,
}
AGENTS = {
    **dict.fromkeys(
        ("torchrun", "torch.distributed.run", "torch.distributed.launch"), options.TORCHRUN
    ),
    "accelerate": options.ACCELERATE,
    "deepspeed": options.DEEPSPEED,
}
OF_DIRECTIVE = "<image of the directive>"
SHELLS = ("bash", "sh", "zsh", "dash")
# Programs before a command that change nothing of what it does.
BEFORE = ("time", "exec", "nohup", "command", "eval", "unbuffer", "builtin")
WITH_OPTIONS = {
    "nice": options.grammar("n adjustment", short="n=n"),
    "stdbuf": options.grammar("input output error", short="i=input o=output e=error"),
    "env": options.grammar("u unset C chdir", "i ignore-environment", "u=u i=i"),
}
# Programs that only look: their output is for a person, or for the next one of a pipe.
LOOKING = names(
    "hostname nvidia-smi rocm-smi date echo printf env printenv lscpu pwd sleep which ldd free df"
    " uname id whoami ulimit true nproc numastat ibstat uptime type cat ls tree wc scontrol lspci"
    " clear ibv_devinfo"
)
FILTERS = names("awk cut grep head perl sort tail tee tr uniq")
# Programs that prepare or serve: no training either.
HELPERS = FILTERS | names(
    "mkdir cp mv rm tar rsync unzip ln chmod touch wget curl git pip pip3 conda mamba ray dask"
    " sbcast make find sbatch scancel squeue sacct sed test gzip enroot tensorboard"
)
# Commands of the script's own shell, which the launch does not need.
OF_SHELL = names(
    "source . cd set export unset wait trap exit shopt read eval declare test [ : true false return"
    " local shift ulimit umask break continue mapfile readarray sync let getopts pushd popd hash"
    " kill disown"
)
# What a text for each rank does before it starts, and what of that a launch line says itself.
SAID = names("export cd set unset trap wait exit declare")
PREPARING = SAID | names("source . module ml conda mkdir")
# Python's modules of that kind.
TOOLS = ("pip", "venv", "virtualenv", "ensurepip", "build", "json.tool", "site")


def is_python(text: str) -> bool:
    name = text.rpartition("/")[2]
    return name.startswith("python") and not name[len("python") :].strip("0123456789.")
