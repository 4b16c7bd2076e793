"""The jobs whose scripts are in `expected/`, one for each way that a site runs them.

Those of `WHOLE` are there as they are, each other one as its differences from the nearest of these.
Write them again after a change that is meant, and read the difference before it is committed:

    python3 -m tests.unit.scripts
"""

from __future__ import annotations

import difflib
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from runners.contract.enums import Controller
from runners.core.job_record import JobPaths
from runners.core.model import (
    DataAccess,
    Dataset,
    ImageInfo,
    JobSpec,
    LauncherName,
    MpiFlavour,
    Resources,
    RuntimeName,
    SchedulerName,
)
from runners.core.plan import Plan
from runners.core.site import HostMpi, Mpirun, Site
from runners.core.trainer import Trainer, Tuning
from runners.script import render
from runners.sites import load

from .plans import planned
from .programs import sandbox

EXPECTED = Path(__file__).parent / "expected"
WHOLE = (
    *("slurm-apptainer", "slurm-apptainer-torchrun", "tuhpc-none"),
    *("perlmutter-shifter", "polaris", "thetagpu"),
)
# What is typed for a site on a machine that is none of its own.
REMOTE_SITES = {
    "polaris": ("--nodes", "2", "-A", "project", "--image", "sandbox"),
    "perlmutter": ("--nodes", "2", "-A", "m1_g", "--gpus-per-node", "4", "--image", "ada/hvd:1"),
}
OURS = {
    "horovod.controllers": "mpi,gloo",
    "mpi.flavour": "openmpi",
    "mpi.version": "4.1.4",
    "pmix.version": "4.2.2",
    "recipes": "torch_mnist",
}
MPICH = {**OURS, "mpi.flavour": "mpich", "mpi.version": "4.1.2", "pmi.client": "pmi2"}
TRAINER = Trainer("torch_mnist", "recipes.torch_mnist", None, ("--epochs", "5"))
SLURM = Site(
    (SchedulerName.SLURM,), ("none", "pmi2", "pmix"), slurm_version="24.11.5", cwd="/scratch/ada"
)
RUN = "/scratch/ada/runs/torch_mnist-1"


def made(site: str | None, image: str, facts: dict[str, str], **asked: Any) -> Plan:
    """Return the plan for a job at a site of ours, whose settings are filled in."""
    profile = load.profile(site, {}, "as requested") if site else None
    settings = dict(profile.launch if profile else {})
    resources = {
        name.replace("-", "_"): value
        for name, value in settings.items()
        if name.replace("-", "_") in Resources.__dataclass_fields__
    }
    resources.update(asked.pop("resources", {}))
    spec = JobSpec(
        name="torch_mnist",
        image=ImageInfo(Path(image)),
        trainer=TRAINER,
        resources=Resources(**resources),
        runs_dir=Path("/scratch/ada/runs"),
        modules=tuple(settings.get("module", ())),
        module_purge=settings.get("module-purge", False),
        sbatch_args=tuple(settings.get("sbatch-arg", ())),
    )
    scheduler = (profile and profile.scheduler) or SchedulerName.SLURM
    here = SLURM if scheduler is SchedulerName.SLURM else Site((scheduler,))
    here = replace(here, mpirun=Mpirun(MpiFlavour(facts["mpi.flavour"]), "4.0.5"))
    libraries = asked.pop("libraries", None)
    facts_here = {"cwd": "/scratch/ada", "host_libraries": libraries}
    here = replace(here, profile=profile, environment={"USER": "ada"}, **facts_here)
    return planned(spec, here, **asked, image=ImageInfo(Path(image), facts))


@cache
def jobs() -> Mapping[str, Plan]:
    """Return every job by the name of its file; planned once, as dozens of tests begin with one."""
    sif = "/scratch/ada/images/horovod.sif"
    account = {"nodes": 2, "account": "project"}
    gpus = {
        "nodes": 2,
        "gpus_per_node": "4",
        "ntasks_per_node": 4,
        "account": "m1_g",
        "time": "01:00:00",
    }
    here = HostMpi(("/opt/openmpi-4.1.4",), "/opt/openmpi-4.1.4/lib")
    gloo = {"controller": Controller.GLOO}
    data = (
        Dataset("tokens", Path("/scratch/ada/tokens")),
        Dataset("images", Path("/scratch/ada/images.sqsh"), squashfs=True),
    )
    return {
        "slurm-apptainer": made(None, sif, OURS, resources={"nodes": 2, "cpus_per_task": 2}),
        "slurm-apptainer-requeue": made(
            None, sif, OURS, resources={"nodes": 2, "time": "01:00:00"}, requeue=True
        ),
        "slurm-apptainer-tuned": made(
            None,
            sif,
            OURS,
            resources={"nodes": 2, "cpus_per_task": 2},
            tuning=Tuning("timeline.json", True, 32, 2.5, 120),
            **gloo,
        ),
        "slurm-apptainer-host-mpi": made(
            None, sif, OURS, resources={"nodes": 2}, host_mpi=True, libraries=here
        ),
        "slurm-apptainer-staged": made(
            None, sif, OURS, resources={"nodes": 2}, data=data, stage_data=DataAccess.COPIED
        ),
        "slurm-apptainer-torchrun": made(
            None,
            sif,
            OURS,
            resources={"nodes": 2, "ntasks_per_node": 4, "cpus_per_task": 2},
            launcher=LauncherName.TORCHRUN,
        ),
        "slurm-apptainer-horovodrun": made(
            None,
            sif,
            OURS,
            resources={"nodes": 2, "ntasks_per_node": 4, "cpus_per_task": 2},
            launcher=LauncherName.HOROVODRUN,
            env=(("SEED", "1"), ("HOROVOD_CYCLE_TIME", "2")),
        ),
        "neuron": made(
            "neuron", sif, OURS, resources={**gpus, "account": None, "comment": "pytorch"}
        ),
        "alvis": made("alvis", sif, OURS, resources={**gpus, "gpus_per_node": "A100:4"}),
        "perlmutter-shifter": made("perlmutter", "docker:ada/hvd:1", MPICH, resources=gpus),
        "perlmutter-podman-hpc": made(
            "perlmutter", "ada/hvd:1", MPICH, resources=gpus, runtime=RuntimeName.PODMAN_HPC, **gloo
        ),
        "tuhpc": made("tuhpc", sif, OURS, resources=account),
        "slurm-podman": made(
            None,
            "registry.example.org/ada/hvd:1",
            OURS,
            resources={"nodes": 2},
            runtime=RuntimeName.PODMAN,
        ),
        "tuhpc-none": made(
            "tuhpc", "/scratch/ada/conda", OURS, resources=account, runtime=RuntimeName.NONE
        ),
        "polaris": made(
            "polaris", sif, MPICH, resources=account, host_mpi=True, controller=Controller.MPI
        ),
        "polaris-requeue": made("polaris", sif, MPICH, resources=account, requeue=True),
        "thetagpu": made(
            "thetagpu", sif, OURS, resources=account, host_mpi=True, controller=Controller.MPI
        ),
    }


def at_remote_site(
    name: str, folder: Path, env: Mapping[str, str], *more: str, command: str = "launch"
) -> subprocess.CompletedProcess[str]:
    """Run `runner COMMAND --site NAME` in an empty folder on a machine of another site."""
    sandbox(folder / "sandbox", {**MPICH, "horovod.version": "0.28.1"})
    words = [command, "--site", name, *REMOTE_SITES[name], *more, "torch_mnist"]
    return subprocess.run(
        [sys.executable, "-m", "runners", *words],
        cwd=folder,
        env={
            "HOME": str(folder),
            "XDG_CACHE_HOME": f"{folder}-cache",
            "PYTHONPATH": str(EXPECTED.parents[2]),
            **env,
        },
        capture_output=True,
        text=True,
        timeout=60,
    )


def as_ours(done: subprocess.CompletedProcess[str], folder: Path) -> str:
    """Return the script that a dry run printed, its folder named /scratch/ada."""
    assert done.returncode == 0, done.stderr
    return done.stdout.replace(str(folder), "/scratch/ada")


def text(made: Plan) -> str:
    """Return the script, for a run in a fixed folder."""
    return render.render(made, JobPaths(Path(RUN)), "/scratch/ada")


def expected(name: str) -> Path:
    """Return the file in which a script, or what differs in it, is kept."""
    return EXPECTED / f"{name}.{'sh' if name in WHOLE else 'diff'}"


def differences(script: str, whole: str) -> str:
    """Return how a script differs from a whole one; numbers of lines would change with others."""
    base = expected(whole).read_text(encoding="utf-8").splitlines()
    lines = difflib.unified_diff(base, script.splitlines(), lineterm="", n=1)
    hunks = ["@@" if line.startswith("@@") else line for line in list(lines)[2:]]
    return "\n".join([f"--- {whole}", *hunks, ""])


def kept(name: str, script: str) -> str:
    """Return what is in the file of a script's name where the script is the expected one."""
    if name in WHOLE:
        return script
    first = expected(name).read_text(encoding="utf-8").partition("\n")[0]
    return differences(script, first[len("--- ") :])


def write() -> None:
    """Write all expected scripts, the whole ones first; remove those of jobs that are no more."""
    made = {name: text(job) for name, job in jobs().items()}
    for name in REMOTE_SITES:
        with tempfile.TemporaryDirectory() as folder:
            done = at_remote_site(name, Path(folder), {"PATH": "/usr/bin:/bin"}, "--dry-run")
            made[f"{name}-remote"] = as_ours(done, Path(folder))
    for old in EXPECTED.iterdir():
        old.unlink()
    for name in WHOLE:
        expected(name).write_text(made[name], encoding="utf-8")
    for name in set(made).difference(WHOLE):
        shortest = min((differences(made[name], whole) for whole in WHOLE), key=len)
        expected(name).write_text(shortest, encoding="utf-8")


if __name__ == "__main__":
    write()
