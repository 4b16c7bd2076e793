"""`--site NAME` on a machine of another site: its profile's words, and nothing of this machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from runners.contract.enums import Controller
from runners.core.model import ImageInfo, SchedulerName
from runners.sites import find_site, load

from .. import scripts, sentences
from ..plans import planned
from ..programs import program, sandbox
from .profiles import environment, job, shipped, write

COMMANDS = {
    "srun": 'echo "MPI plugin types are..."; echo none; echo pmi2; echo pmix',
    "scontrol": "echo 'ClusterName = kit'; echo 'SLURM_VERSION = 24.11.5'",
    "sinfo": "echo 'debug*|1|1|(null)|00:01:00|0'",
    "sbatch": "touch submitted; echo 7",
    "apptainer": "echo asked >> asked",
    "mpirun": "echo 'mpirun (Open MPI) 5.0.7'",
}


def machine(folder: Path) -> dict[str, str]:
    """Return the environment of a login node with Slurm, Apptainer and settings of its own."""
    for name, does in COMMANDS.items():
        program(folder / name, does)
    return {"PATH": f"{folder}:/usr/bin:/bin", "NCCL_NET": "Socket", "SLURM_CPU_BIND": "none"}


@pytest.mark.parametrize("name", sorted(scripts.REMOTE_SITES))
def test_its_script_is_the_sites_whatever_this_machine_has(tmp_path: Path, name: str) -> None:
    work, file = tmp_path / "work", scripts.expected(f"{name}-remote")
    done = scripts.at_remote_site(name, work, machine(tmp_path / "bin"), "--dry-run")
    script = scripts.kept(file.stem, scripts.as_ours(done, work))
    assert script == file.read_text(encoding="utf-8"), "if it is meant: -m tests.unit.scripts"
    assert (
        f"warning: this machine does not belong to {name}: only its profile was read" in done.stderr
    )
    assert "runner launch --dry-run with the same words" not in done.stderr
    assert sorted(os.listdir(work)) == ["sandbox"]  # nobody was asked, nothing written
    subprocess.run(["bash", "-n"], input=done.stdout, text=True, check=True)


def test_it_is_planned_and_its_script_is_offered(tmp_path: Path) -> None:
    work, env = tmp_path / "work", machine(tmp_path / "bin")
    done = scripts.at_remote_site("polaris", work, env, command="plan")
    assert done.returncode == 0, done.stderr
    said = done.stdout + done.stderr
    assert "warning: this machine does not belong to polaris: only its profile was read" in said
    assert "runner launch --dry-run with the same words" in said


def test_it_is_not_submitted(tmp_path: Path) -> None:
    done = scripts.at_remote_site(
        "polaris", tmp_path / "work", machine(tmp_path / "bin"), "--force"
    )
    assert done.returncode == 2
    assert "is not of polaris: its jobs are shown here, not submitted" in done.stderr
    assert "its profile tells it by machines named polaris-login-*" in done.stderr
    assert "try: runner launch --dry-run --site polaris " in done.stderr
    assert 'sites/polaris.toml with base = "polaris" and [detect] hosts = ["' in done.stderr
    assert sorted(os.listdir(tmp_path / "work")) == ["sandbox"]


GPU_IMAGE = {**scripts.OURS, "horovod.version": "0.28.1", "cuda.version": "12.8"}


@pytest.mark.parametrize(
    ("words", "what", "forms"),
    [
        (
            ("alvis", "--account", "p", "--nodes", "2"),
            "horovod_gpu.sif is for GPUs, and alvis requires their type",
            ["T4:8", "V100:2", "A40:4", "A100:4", "A100fat:4"],
        ),
        (
            ("alvis", "--account", "p", "--gpus-per-node", "H100:4"),
            "the nodes of T4 have T4 or V100 or A40 or A100 or A100fat, not H100",
            ["T4:4", "V100:4", "A40:4", "A100:4", "A100fat:4"],
        ),
        (
            ("neuron", "--comment", "x", "--gpus-per-node", "16"),
            "16 GPUs per node, but the nodes of amd_a100nv_8 have 8",
            ["gpu:8"],
        ),
    ],
)
def test_each_type_of_gpu_has_a_line_of_its_own(
    tmp_path: Path, words: tuple[str, ...], what: str, forms: list[str]
) -> None:
    work = tmp_path / "work"
    sandbox(work / "horovod_gpu.sif", GPU_IMAGE)
    env = {**machine(tmp_path / "bin"), "HOME": str(work), "XDG_CACHE_HOME": str(tmp_path)}
    env["PYTHONPATH"] = str(scripts.EXPECTED.parents[2])
    site, *options = words
    argv = ["launch", "--image", "horovod_gpu.sif", "--dry-run", "--site", site, *options]
    done = subprocess.run(
        [sys.executable, "-m", "runners", *argv, "torch_mnist"],
        cwd=work, env={**env, "USER": "ada"}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 80, done.stderr
    assert f"runner: {what}\n" in done.stderr
    assert re.findall(r"try: runner launch --(?:gres|gpus-per-node) (\S+) --", done.stderr) == forms


def test_a_file_of_ones_own_says_that_it_is_here(tmp_path: Path) -> None:
    env = environment(tmp_path)
    write(tmp_path, "polaris", 'base = "polaris"\n[detect]\nhosts = ["login9"]\n')
    mine = load.profile("polaris", env)
    assert not find_site.is_remote_site(mine, "", "login9", env)
    assert find_site.is_remote_site(mine, "", "polaris-login-01", env)


@pytest.mark.parametrize(
    ("name", "cluster", "host", "env", "expected"),
    [
        ("neuron", "kit", "login", {}, True),
        ("neuron", "neuron", "login", {}, False),
        ("neuron", "", "glogin01", {}, False),
        ("perlmutter", "", "nid001", {"NERSC_HOST": "perlmutter"}, False),
        ("perlmutter", "", "nid001", {"NERSC_HOST": "cori"}, True),
        ("tuhpc", "kit", "login", {}, True),
        ("tuhpc", "tuhpc", "login", {}, False),
        ("slurm", "kit", "login", {}, False),
    ],
)
def test_what_tells_that_it_is_here(
    name: str, cluster: str, host: str, env: dict[str, str], expected: bool
) -> None:
    assert find_site.is_remote_site(shipped(name), cluster, host, env) is expected


def test_what_a_profile_has_of_its_base_tells_nothing_of_it(tmp_path: Path) -> None:
    env = environment(tmp_path)
    write(tmp_path, "like", 'base = "neuron"\n')
    assert not find_site.is_remote_site(load.profile("like", env), "kit", "login", env)


def there(name: str, **asked: object) -> list[str]:
    """Return what is refused in a job for a site that is elsewhere."""
    profile = shipped(name)
    spec = job(profile, **{"comment": "pytorch", "nodes": 2, **asked})
    made = planned(spec, find_site.remote(profile, "/root"), image=ImageInfo(Path("/i.sif")))
    return sentences.ids(made.refusals)


def test_folders_of_this_machine_are_not_judged_and_rules_are() -> None:
    assert there("neuron", runs_dir=Path("/tmp/x/runs")) == []
    assert there("neuron", mem="1G") == ["site-forbids"]


def test_another_scheduler_than_the_sites_is_refused() -> None:
    assert there("neuron", scheduler=SchedulerName.SLURM) == []
    assert there("neuron", scheduler=SchedulerName.PBS)[0] == "scheduler-not-at-site"


def test_the_hosts_mpi_is_the_profiles_or_none() -> None:
    asked = {"host_mpi": True, "controller": Controller.MPI}
    assert there("neuron", **asked) == ["host-mpi-unknown"]
