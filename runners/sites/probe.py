"""Detects what this machine offers: schedulers, partitions, container runtimes, MPI, the driver."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any, Callable, TypeVar

from ..contract.nvidia import driver_version
from ..core import files, machine, places, shell
from ..core.model import GpuVendor, MpiFlavour, RuntimeName, SchedulerName
from ..core.site import Mpirun, Partition, Site
from ..schedulers import capabilities
from ..schedulers.slurm import CONFIG, parse_config
from . import slurm_nodes

SECONDS_TO_ANSWER = 10  # of a command of the site; then the plan goes on without it
RUNTIMES = tuple(name for name in RuntimeName if name is not RuntimeName.NONE)
# What a user may have set that changes a job, or what a site's rules may name.
MATTERS = re.compile(
    r"(NCCL|HOROVOD|UCX|FI|OMPI_MCA|PMIX_MCA|OMP|SLURM_CPU_BIND)_|"
    r"((CUDA|ROCR|HIP)_VISIBLE_DEVICES|RESUME|SLURM_CPU_BIND|USER|HOME|(P|RUNNER_)?SCRATCH)$"
)
REMEMBERED = 60  # seconds of Slurm's answers: partitions, settings and the list of --mpi
FORM = 1
ABOUT = f"what Slurm answered, asked again after {REMEMBERED} s; may be removed at any time"
GPUS = "/proc/driver/nvidia/gpus"  # a folder for each
KFD = "/sys/class/kfd/kfd/topology/nodes"  # AMD's driver: a folder for each CPU and GPU
CPU_QUOTA = "/sys/fs/cgroup/cpu.max"  # cgroups(7): microseconds, of a period
MPIRUN = ["mpirun", "--version"]
Parsed = TypeVar("Parsed")


def probe(fresh: bool = True) -> Site:
    """Return what is here; a command that hangs or cannot be read is left out, and told.

    With `fresh`, Slurm is queried now; otherwise its answers may be a minute old.
    `srun --mpi=list` only lists plugin files; the other two questions go to Slurm's controller.
    """
    env = os.environ
    runtimes = tuple(name for name in RUNTIMES if shutil.which(name))
    schedulers = tuple(
        name
        for name in SchedulerName
        if capabilities(name).queue and shutil.which(capabilities(name).command)
    )
    problems: list[str] = []
    types, settings, partitions = (
        _slurm(problems, fresh) if SchedulerName.SLURM in schedulers else ((), {}, ())
    )
    return Site(
        schedulers,
        mpi_types=types,
        runtime=next(iter(runtimes), None),
        runtimes=runtimes,
        driver=driver_version(),
        gpus=len(list(Path(GPUS).glob("*"))),
        cpus=_cpus(),
        glibc=_glibc(),
        architecture=machine.architecture(),
        slurm_version=settings.get("SLURM_VERSION", ""),
        mpi_default=settings.get("MpiDefault", ""),
        task_plugin=settings.get("TaskPlugin", ""),
        proctrack=settings.get("ProctrackType", ""),
        cluster_name=settings.get("ClusterName", ""),
        partitions=partitions,
        amd=Path("/dev/kfd").exists(),
        allocation=env.get("SLURM_JOB_ID", ""),
        allocated_nodes=_number(env.get("SLURM_JOB_NUM_NODES", "")),
        allocated_cpus=allocated_cpus(env),
        allocated_tasks=_number(env.get("SLURM_NTASKS_PER_NODE", "")),
        cwd=os.getcwd(),
        environment=that_matters(env),
        problems=tuple(problems),
    )


def _cpus() -> int:
    """Return how many CPUs this process may use, by its affinity and its container's quota."""
    bound = len(os.sched_getaffinity(0))
    try:
        quota, period = map(int, Path(CPU_QUOTA).read_text().split())
    except (OSError, ValueError):  # none, or "max"
        return bound
    return max(1, min(bound, quota // period))


def _slurm(
    problems: list[str], fresh: bool
) -> tuple[tuple[str, ...], dict[str, str], tuple[Partition, ...]]:
    commands = [slurm_nodes.MPI_LIST, CONFIG, slurm_nodes.PARTITIONS]
    ask = shell.together if fresh else ask_slurm
    types, config, sinfo = ask(commands, SECONDS_TO_ANSWER)
    # srun prints its list on stderr (22.05) or stdout (newer).
    types = shell.Result(types.code, types.out + types.err, types.err)
    return (
        _read(slurm_nodes.MPI_LIST, types, slurm_nodes.parse_mpi_list, problems),
        _read(CONFIG, config, parse_config, problems),
        _read(slurm_nodes.PARTITIONS, sinfo, slurm_nodes.parse_partitions, problems),
    )


def _read(
    command: list[str], answer: shell.Result, parse: Callable[[str], Parsed], problems: list[str]
) -> Parsed:
    """Return what a command said; when that fails note why, with its words, and go on."""
    if answer.code:
        problems.append(f"{command[0]}: {_first(answer.err or answer.out)}")
        return parse("")
    try:
        parsed = parse(answer.out)
    except ValueError:
        parsed = None
    if parsed is None or not (parsed or command is slurm_nodes.PARTITIONS):
        problems.append(f"{command[0]} printed what runner does not read: {_first(answer.out)}")
    return parse("") if parsed is None else parsed


def _first(text: str) -> str:
    return text.strip().partition("\n")[0][:200] or "it said nothing"


def allocated_cpus(env: Mapping[str, str]) -> int:
    """Return the CPUs that the surrounding job has on each node at least, 0 for no such bound.

    salloc sets the first of the numbers only, such as 4(x2),2 for three nodes; a step has both.
    """
    if env.get("SLURM_OVERCOMMIT"):  # srun reads it too, and lets ranks share CPUs
        return 0
    texts = env.get("SLURM_JOB_CPUS_PER_NODE") or env.get("SLURM_CPUS_ON_NODE", "")
    return min((_number(part.partition("(")[0]) for part in texts.split(",")), default=0)


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0


def that_matters(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a plan looks at."""
    return {name: value for name, value in env.items() if MATTERS.match(name)}


def mpirun() -> Mpirun | None:
    """Return flavour and version of the mpirun on the PATH, None without one.

    It is this machine's; the nodes of the job are taken to have the same.
    """
    return parse_mpirun(shell.together([MPIRUN], SECONDS_TO_ANSWER)[0].out)


def parse_mpirun(text: str) -> Mpirun | None:
    """Return what `mpirun --version`, or another of an MPI's tools, says."""
    for flavour, pattern in (
        (MpiFlavour.OPEN_MPI, r"Open MPI\)? v?(\d[\w.]*)"),
        (MpiFlavour.INTEL_MPI, r"Intel\(R\) MPI Library .*?Version (\d[\w.]*)"),
        (MpiFlavour.MPICH, r"(?:HYDRA[\s\S]*?|MPICH )Version:\s+(\d[\w.]*)"),
    ):
        match = re.search(pattern, text)
        if match:
            return Mpirun(flavour, match.group(1))
    return None


def allocated_gpus(job: str) -> int:
    """Return the GPUs that a Slurm job has on each of its nodes at least, 0 where none are told.

    `scontrol show job --detail` has lines such as "Nodes=n[1-2] CPU_IDs=0-3 Mem=1024
    GRES=gpu:A100:2(IDX:0-1)".
    """
    command = ["scontrol", "show", "job", "--detail", job]
    text = shell.together([command], SECONDS_TO_ANSWER)[0].out
    nodes = re.findall(r"^\s+Nodes=\S+ CPU_IDs=.*?GRES=(.*)$", text, re.MULTILINE)
    counts = [sum(int(n["count"]) for n in slurm_nodes.GPU.finditer(gres)) for gres in nodes]
    return min(counts, default=0)


@lru_cache  # remedies are planned on the same machine, one after the other
def gpus_here(vendor: GpuVendor) -> int:
    """Return how many GPUs of a vendor a process can use here, each instance of MIG for one."""
    if vendor is GpuVendor.AMD:
        files = (path.read_text().strip() for path in Path(KFD).glob("*/gpu_id"))
        return sum(text not in ("", "0") for text in files)
    from ..contract import nvidia  # few launches run on this machine

    answer = shell.together([nvidia.LIST], SECONDS_TO_ANSWER)[0]
    if answer.code:
        return len(list(Path(GPUS).glob("*")))
    return len(nvidia.devices(nvidia.listed(answer.out)))


def apptainer(command: str) -> str:
    """Return the version of the Apptainer that answers to `command`, empty for another runtime."""
    output = shell.together([[command, "--version"]], SECONDS_TO_ANSWER)[0].out
    match = re.match(r"apptainer version (\d+(?:\.\d+)*)", output)
    return match.group(1) if match else ""


def _glibc() -> str:
    """Return 2.36 of "glibc 2.36"; empty with another C library."""
    name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    return version if name == "glibc" else ""


def ask_slurm(commands: Sequence[Sequence[str]], timeout: float) -> list[shell.Result]:
    """Return the answers, of which none is older than REMEMBERED; failures are not remembered."""
    path, question = _answers_file(), _question(commands)
    known = files.recall(path, FORM)
    if known.get("question") == question and 0 <= time.time() - known["time"] < REMEMBERED:
        return [shell.Result(**answer) for answer in known["answers"]]
    answers = shell.together(commands, timeout)
    if all(answer.code == 0 for answer in answers):
        content = {"about": ABOUT, "time": time.time(), "question": question}
        files.remember(path, FORM, {**content, "answers": [asdict(answer) for answer in answers]})
    return answers


def _question(commands: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Return what the answers depend on: the programs, and the cluster that they ask."""
    programs = [shutil.which(command[0]) for command in commands]
    configuration = os.environ.get("SLURM_CONF") or "/etc/slurm/slurm.conf"
    try:
        changed = os.stat(configuration).st_mtime_ns
    except OSError:  # some sites keep it elsewhere, or send it to the nodes
        changed = 0
    return {
        "configuration": [configuration, changed],
        "commands": [[str(path), *words[1:]] for path, words in zip(programs, commands)],
    }


def _answers_file() -> Path:
    # A home may be shared by several clusters.
    return places.private_cache() / f"slurm-{os.uname().nodename}.json"
