"""The batch script: its text, and what bash and the trainer make of it."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runners import runtimes
from runners.contract.enums import Controller, WordEnum
from runners.contract.exit_codes import EXIT_NO_MODULE
from runners.core.job_record import JobPaths
from runners.core.model import (
    AGENTS,
    BindMount,
    ImageInfo,
    JobSpec,
    LauncherName,
    Resources,
    RuntimeName,
    SchedulerName,
)
from runners.core.plan import Plan
from runners.core.site import Site
from runners.core.trainer import Trainer
from runners.injob.rank import trainer_command
from runners.launching import private_folder
from runners.runtimes import RUNTIMES, command_lines
from runners.schedulers import CAPABILITIES, slurm_script
from runners.script import environment, render
from runners.script.launchers import LAUNCHERS

from .. import scripts, sentences
from ..plans import planned
from ..programs import program

SITE = Site((SchedulerName.SLURM,), ("none", "pmix"), RuntimeName.APPTAINER)
IMAGE = ImageInfo(Path("/images/a.sif"), {"horovod.controllers": "gloo", "recipes": "torch_mnist"})
SPEC = JobSpec(
    name="torch_mnist",
    image=IMAGE,
    trainer=Trainer("torch_mnist", "recipes.torch_mnist", None, ("--epochs", "5")),
    resources=Resources(nodes=2, cpus_per_task=2, time="00:10:00", comment="pytorch tests"),
    runs_dir=Path("/runs"),
)
PATHS = JobPaths(Path("/runs/torch_mnist-1"))


def made(**changes: object) -> Plan:
    return planned(SPEC, SITE, **changes, image=IMAGE)


@pytest.mark.parametrize("name", [*sorted(scripts.jobs())])
def test_the_expected_script_which_bash_reads(name: str) -> None:
    made = scripts.jobs()[name]
    assert made.refusals == ()
    script = scripts.text(made)
    expected = scripts.expected(name).read_text(encoding="utf-8")
    assert scripts.kept(name, script) == expected, "if it is meant: python3 -m tests.unit.scripts"
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_each_expected_script_is_of_a_job() -> None:
    names = [*scripts.jobs(), *(f"{site}-remote" for site in scripts.REMOTE_SITES)]
    assert {*scripts.EXPECTED.iterdir()} == {scripts.expected(name) for name in names}


@pytest.mark.parametrize(
    ("option", "line"),
    [
        ("--qos=high", "--qos=high"),
        ("--comment=a b", '"--comment=a b"'),
        ('--comment=say "hi"', '"--comment=say \\"hi\\""'),
        ("--comment=a\\b", '"--comment=a\\\\b"'),
        ("--comment=#1", '"--comment=#1"'),
    ],
)
def test_directives_are_quoted(option: str, line: str) -> None:
    assert slurm_script.directive(option) == line


@pytest.mark.parametrize(
    ("bind", "argv"),
    [
        (BindMount("/a b", "/c", True), ["--bind", "/a b:/c:ro"]),
        (BindMount("/a,b", "/c", True), ["--mount", 'type=bind,"source=/a,b",destination=/c,ro']),
        (BindMount("/a:b", "/c"), ["--mount", "type=bind,source=/a:b,destination=/c"]),
    ],
)
def test_binds_with_odd_characters_become_mounts(bind: BindMount, argv: list[str]) -> None:
    assert command_lines.bind_option(bind) == argv


# Stands in for srun and apptainer: writes what it was called with, and the environment.
FAKE = """#!{python}
import json, os, sys
json.dump([sys.argv, dict(os.environ)], open({out!r}, "w"))
"""


def run_script(
    tmp_path: Path, text: str, env: dict[str, str] | None = None
) -> tuple[list[str], dict[str, str]]:
    """Run the script under bash with a stand-in for srun; return its arguments and environment."""
    out = tmp_path / "called.json"
    program(tmp_path / "bin" / "srun", FAKE.format(python=sys.executable, out=str(out)))
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    subprocess.run(["bash", "-c", text], env={"PATH": path, **(env or {})}, check=True, timeout=20)
    argv, seen = json.loads(out.read_text())
    return argv[1:], seen


def test_values_of_the_users_variables_are_for_their_owner_alone(tmp_path: Path) -> None:
    job, paths = made(env=(("TOKEN", "s3cret"), ("OUTPUT_DIR", "/mine"))), JobPaths(tmp_path)
    text = render.render(job, paths, "/w") + render.enter(job, paths, "/w")
    assert "s3cret" not in text
    assert "# The values of TOKEN OUTPUT_DIR stand where only their owner reads them." in text
    assert "APPTAINERENV_OUTPUT_DIR" not in text  # the user's own is the only one
    private_folder.write(paths, paths.env.name, runtimes.own_file(job))
    assert stat.S_IMODE(paths.env.stat().st_mode) == 0o600
    assert stat.S_IMODE(paths.private.stat().st_mode) == 0o700
    assert 'TOKEN"=s3cret\n' in paths.env.read_text()


def test_files_and_functions_of_the_hosts_shells_do_not_leak_in(tmp_path: Path) -> None:
    """`module` is one, and stays for the script's own lines; without a container all stay."""
    (tmp_path / "host.sh").write_text(":\n")
    leaking = {
        "BASH_ENV": str(tmp_path / "host.sh"),
        "ENV": "/etc/profile",
        "BASH_FUNC_which%%": "() { /usr/bin/which --tty-only; }",
        "BASH_FUNC_module%%": f'() {{ echo "$*" >> {tmp_path}/loaded; }}',
    }
    job = made(modules=("gcc",))
    _, seen = run_script(tmp_path, render.render(job, JobPaths(tmp_path), "/w"), leaking)
    assert not set(leaking) & set(seen)
    assert (tmp_path / "loaded").read_text() == "load gcc\n"
    job = made(modules=("gcc",), runtime=RuntimeName.NONE)
    _, seen = run_script(tmp_path, render.render(job, JobPaths(tmp_path), "/w"), leaking)
    assert set(leaking) <= set(seen)


def test_srun_takes_no_request_of_others_for_its_own(tmp_path: Path) -> None:
    outer = {
        "SLURM_EXPORT_ENV": "NONE",
        "SRUN_EXPORT_ENV": "NONE",
        "SLURM_TRES_PER_TASK": "cpu=8,gres/gpu=1",
        "SLURM_TRES_BIND": "gres/gpu:per_task:1",
        "SLURM_NTASKS_PER_GPU": "2",
        "SLURM_CPU_BIND": "quiet,mask_cpu:0x3",
        "SLURM_CPU_BIND_LIST": "0x3",
        "SLURM_CPU_BIND_TYPE": "mask_cpu:",
        "SLURM_CPU_BIND_VERBOSE": "quiet",
    }
    within = replace(SITE, allocation="7", allocated_nodes=2)
    resources = replace(SPEC.resources, gpus_per_task="1", ntasks=4)
    spec = replace(SPEC, image=IMAGE, scheduler=SchedulerName.ALLOCATION, resources=resources)
    job = planned(spec, within)
    text = render.render(job, JobPaths(tmp_path), str(tmp_path))
    argv, seen = run_script(tmp_path, text, {**outer, "SLURM_JOB_ID": "7"})
    assert not set(outer) & set(seen)
    assert seen["SLURM_JOB_ID"] == "7"
    assert "--gpus-per-task=1" in argv
    _, seen = run_script(tmp_path, text, {"SLURM_CPU_BIND": "none", "SLURM_JOB_ID": "7"})
    assert seen["SLURM_CPU_BIND"] == "none"  # the user's own


def test_the_ranks_get_the_jobs_environment_whatever_export_was(tmp_path: Path) -> None:
    """sbatch --export=NONE sets this, and srun then gives the ranks nothing, not even a PATH."""
    text = render.render(made(sbatch_args=("--export=NONE",)), JobPaths(tmp_path), str(tmp_path))
    env = {"SLURM_EXPORT_ENV": "NONE", "SLURM_TRES_PER_TASK": "cpu=2"}
    _, seen = run_script(tmp_path, text, env)
    assert "SLURM_EXPORT_ENV" not in seen
    assert seen["SLURM_TRES_PER_TASK"] == "cpu=2"  # this job's own


def test_mpi_and_gpu_show_in_the_command() -> None:
    image = ImageInfo(IMAGE.path, {"horovod.controllers": "mpi", "pmix.version": "4.2.2"})
    spec = replace(SPEC, resources=Resources(nodes=2, gpus_per_node="4", ntasks_per_node=4))
    text = render.render(planned(spec, SITE, image=image), PATHS, "/w")
    assert "srun --mpi=pmix " in text
    assert "apptainer exec --nv " in text
    assert "#SBATCH --gpus-per-node=4" in text
    assert 'export OMPI_MCA_btl_vader_single_copy_mechanism="${' in text


def test_valves_land_where_they_belong() -> None:
    text = render.render(
        made(sbatch_args=("--hold",), srun_args=("--label",), apptainer_args=("--no-home",)),
        PATHS,
        "/w",
    )
    assert "#SBATCH --hold\n" in text
    assert (
        "srun --mpi=none --kill-on-bad-exit=1 --wait=600 --ntasks=2 --cpus-per-task=2 --label"
        in text
    )
    assert "--no-home /images/a.sif" in text


@pytest.mark.parametrize(("there", "loaded"), [(("a b", "c"), "a b"), (("c",), "c"), ((), None)])
def test_the_first_module_that_is_there_is_loaded(
    tmp_path: Path, there: tuple[str, ...], loaded: str | None
) -> None:
    known = "|".join(f'"{name}"' for name in there) or '""'
    module = f"module() {{ case $2 in {known}) echo loaded $2;; *) return 1;; esac; }}"
    lines = environment.modules(made(modules=("a b|c",)))
    done = subprocess.run(
        ["bash", "-c", "\n".join([module, *lines, "echo after"])], capture_output=True, text=True
    )
    if loaded:
        assert (done.returncode, done.stdout) == (0, f"loaded {loaded}\nafter\n")
    else:
        assert (done.returncode, done.stdout) == (EXIT_NO_MODULE, "")
        assert "no module a b|c: it could not be loaded" in done.stderr


def test_modules_are_unloaded_first_where_asked() -> None:
    lines = environment.modules(made(modules=("mine",), module_purge=True))
    assert lines[0] == "module purge"
    assert lines[1].startswith("module load mine ")


def test_without_a_container_a_runtimes_module_is_left_out() -> None:
    lines = environment.modules(
        made(modules=("singularity/3|apptainer", "gcc"), runtime=RuntimeName.NONE)
    )
    assert [line.split(" || ")[0] for line in lines[1:]] == ["module load gcc"]


def test_the_network_between_nodes_is_not_set_up_on_one() -> None:
    asked = {"account": "p", "nodes": 1}
    one = scripts.made(
        "polaris", "/i.sif", scripts.MPICH, resources=asked, controller=Controller.GLOO
    )
    names = {variable.name for variable in one.variables}
    assert "FI_CXI_RDZV_THRESHOLD" in names
    assert not any(name.startswith("NCCL_") for name in names)


def test_the_ranks_errors_have_a_file_of_their_own_where_asked() -> None:
    text = render.render(made(error="a b_%j.err"), PATHS, "/w")
    assert "srun --mpi=none --kill-on-bad-exit=1 --wait=600 --ntasks=2 --cpus-per-task=2" in text
    assert " '--error=a b_%j.err' \\\n" in text
    assert " --errors " in text
    assert "#SBATCH --error" not in text
    again = render.render(made(error="e", requeue=True), PATHS, "/w")
    assert " --error=e --open-mode=append " in again
    assert " --errors " not in render.render(made(), PATHS, "/w")


def test_errors_need_srun() -> None:
    refusals = made(error="e", launcher=LauncherName.MPIRUN, mpi=None).refusals
    (told,) = (sentences.told(r) for r in refusals if r.id == "error-file-needs-srun")
    assert told[1:] == ("leave out --error", "--launcher srun")


def test_each_name_has_its_row_in_a_table() -> None:
    tables: list[tuple[type[WordEnum], Collection[str]]] = [
        (SchedulerName, CAPABILITIES),
        (RuntimeName, RUNTIMES),
        (LauncherName, LAUNCHERS),
    ]
    for names, table in tables:
        assert set(names) == set(table)
    assert set(trainer_command.AGENTS) == set(AGENTS)


@pytest.mark.parametrize(
    ("changes", "option"),
    [
        ({}, " --ntasks=2 "),
        ({"resources": Resources(nodes=2, ntasks_per_node=2, cpus_per_task=2)}, ""),
        ({"sbatch_args": ("--ntasks-per-node=4",)}, ""),
    ],
)
def test_srun_is_told_how_many_ranks_there_are(changes: dict[str, Any], option: str) -> None:
    """Of a job with whole nodes --cpus-per-task alone would make a rank of each of its CPUs."""
    text = render.render(made(**changes), PATHS, "/w")
    (line,) = re.findall(r"^srun .*", text, re.MULTILINE)
    assert ("--ntasks" in line) is bool(option)
    assert option in line
