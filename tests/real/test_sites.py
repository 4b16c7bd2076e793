"""Slurm configured like each site: the site is found, its jobs are accepted and run, and what it
refuses is refused by runner first, and by that Slurm too when forced.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests import documents

from .beside import cluster
from .conftest import IMAGE, Login, ended, succeeded
from .places import BARE
from .test_gpu import HELD, labelled, of_the_job

pytestmark = pytest.mark.unpacked
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
INSTANCES = """\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6)
  MIG 1g.10gb     Device  0: (UUID: MIG-c6d4f1ef)
  MIG 1g.10gb     Device  1: (UUID: MIG-cba663e8)
"""
FORMS = (
    ("--gpus-per-node", "1g.10gb:2"),
    ("--gres", "gpu:1g.10gb:2"),
    ("--gpus", "1g.10gb:2"),
    ("--sbatch-arg=--gpus-per-task=1g.10gb:1", "--ntasks-per-node", "2"),
)
TRY = re.compile(r"^  try: (runner .*)$", re.MULTILINE)
HELLO = f"{BARE}hvd.init()\nprint('rank', hvd.rank(), 'of', hvd.size())\nhvd.shutdown()\n"
# The image is the CPU one: GPUs are asked for as on the site, counted by Slurm, and not used.
TWO = ("--nodes", "2", "--ntasks-per-node", "1", "--no-nv")
PROJECT = ("--account", "NAISS2026-1-1")


@dataclass(frozen=True)
class Case:
    """A site, a job that it takes with options of its script, and jobs that it refuses."""

    name: str
    takes: tuple[str, ...]
    options: tuple[str, ...]
    refuses: tuple[tuple[tuple[str, ...], str], ...] = ()
    found: str = ""


CASES = (
    Case(
        "neuron",
        ("--comment", "pytorch", "--gpus-per-node", "A100:2"),
        ("--gres=gpu:A100:2", "--partition=amd_a100nv_8", "--comment=pytorch"),
        (
            ((), "neuron requires --comment"),
            (("--comment", "pytorch", "--mem", "1G"), "neuron does not accept jobs with --mem"),
            (("--comment", "pytorch", "-t", "3-0"), "is more than neuron allows: 48:00:00"),
        ),
        "the cluster calls itself neuron",
    ),
    Case(
        "perlmutter",
        # An account without _g has GPU hours too, since 2026.
        ("--account", "m0001", "--gpus-per-node", "4"),
        ("--gpus-per-node=4", "--constraint=gpu", "--qos=regular", "--account=m0001"),
        (
            (
                ("--account", "m0001_g", "--gpus-per-node", "4", "--constraint", "cpu"),
                "does not accept --constraint cpu",
            ),
        ),
        "NERSC_HOST is perlmutter",
    ),
    Case(
        "alvis",
        (*PROJECT, "--gpus-per-node", "A100:4"),
        ("--gpus-per-node=A100:4", "--partition=alvis", f"--account={PROJECT[1]}"),
        (
            (("--gpus-per-node", "A100:4"), "alvis requires --account"),
            ((*PROJECT, "--gpus-per-node", "A100:2"), "must request all GPUs of each: 4, not 2"),
            ((*PROJECT, "--gpus-per-node", "T4:8", "-t", "8-0"), "is more than alvis allows: 7-00"),
        ),
        "the cluster calls itself alvis",
    ),
    Case(
        "tuhpc",
        ("--site", "tuhpc"),
        ("--ntasks-per-node=1", "--time=04:00:00"),
        found="the cluster calls itself tuhpc",
    ),
)


@dataclass(frozen=True)
class AsTyped:
    """What `runner launch --image horovod_gpu.sif --nodes 2` is told, and which line is then typed.

    `since` is said by that line, and `gpus` are what Slurm counts for each node.
    """

    told: tuple[str, ...]
    choose: str
    since: str
    gpus: str


AS_TYPED = {
    "neuron": AsTyped(
        ("neuron requires --comment",),
        "--comment pytorch",
        "gpus-per-node: 8, since horovod_gpu.sif is for GPUs and nodes of amd_a100nv_8 have 8\n",
        "gres/gpu:8",
    ),
    "alvis": AsTyped(
        (
            "alvis requires their type",
            "also: alvis requires --account",
            "T4:8",
            "V100:2",
            "A40:4",
            "A100:4",
            "A100fat:4",
        ),
        "A100:4",
        "GPUs on each node: A100:4",
        "gres/gpu:A100:4",
    ),
}


@pytest.fixture(scope="module", params=CASES, ids=lambda case: str(case.name))
def case(request: pytest.FixtureRequest) -> Iterator[Case]:
    """One site after the other, each on a cluster that is like it."""
    made: Case = request.param
    with cluster("--like", made.name):
        yield made


@pytest.fixture
def trainer(case: Case, login: Login) -> str:
    return login.write("hello.py", HELLO)


def test_the_site_is_found(case: Case, login: Login) -> None:
    rows = login.told("sites")
    chosen = {row["name"]: row["in_force"] for row in rows if row["in_force"]}
    assert chosen == ({case.name: case.found} if case.found else {})


def test_its_slurm_accepts_the_script_and_runs_it(case: Case, login: Login, trainer: str) -> None:
    printed = succeeded(login.launch(*TWO, *case.takes, "--dry-run", trainer))
    for option in case.options:
        assert f"#SBATCH {option}\n" in printed.stdout
    script = login.write("job.sh", printed.stdout)
    succeeded(login.run("sbatch", "--test-only", script))
    done = succeeded(login.launch(*TWO, *case.takes, "--follow", "--all", trainer))
    assert "rank 1 of 2" in done.stdout
    if case.name == "perlmutter":
        accounting_knows_it(login)
        runs_on_cpu_nodes(login, trainer)
    if case.name == "alvis":
        tutorials_lines_tell(login)
    if case.name == "tuhpc":
        modules_have_alternatives(login, trainer)


def runs_on_cpu_nodes(login: Login, trainer: str) -> None:
    """Perlmutter's nodes without GPUs, by a constraint alone: jobs have their 256 CPUs whole."""
    words = ("--account", "m0001", "--constraint", "cpu", "--nodes", "2")
    done = succeeded(login.launch(*words, "--follow", "--all", trainer))
    assert "rank 1 of 2" in done.stdout, "srun would start a rank for each CPU"
    job = login.told("list")[-1]
    assert (job["state"], job["nodes"]) == ("COMPLETED", "nid[004000-004001]")
    script = login.sh(f"cat runs/{login.runs()[-1]}/job.sbatch")
    assert "#SBATCH --constraint=cpu\n" in script
    assert "gpu" not in "\n".join(re.findall("^#SBATCH.*", script, re.MULTILINE))


def tutorials_lines_tell(login: Login) -> None:
    """What the page has for Alvis' jobinfo and projinfo, typed as it stands there."""
    page = (documents.ROOT / "docs" / "tutorials" / "alvis.md").read_text()
    lines = re.findall(r"`((?:sinfo|sshare) [^`]+)`", page)
    free, used = (login.sh(line) for line in lines)
    assert re.search(r"(?m)^alvis\* +gpu:A100:4 +gpu:A100:0\S* +2 *$", free), free
    assert re.search(rf"(?im)^ *{PROJECT[1]} +\d+ *$", used), used


def modules_have_alternatives(login: Login, trainer: str) -> None:
    """The profile's are unloaded and loaded; of the user's own the first that is there."""
    words = ("--site", "tuhpc", "--ntasks-per-node", "1", "--controller", "gloo", "--follow")
    done = succeeded(login.launch(*words, "--module", "nope|openmpi", trainer))
    done = login.launch(*words, "--module", "nope|neither", trainer)
    assert done.returncode == 93, done.stdout + done.stderr
    assert "the module nope|neither could not be loaded on the node" in done.stderr
    assert "module spider nope neither" in done.stderr


def accounting_knows_it(login: Login) -> None:
    """A job that squeue has forgotten, and that left no record, on the cluster with a slurmdbd."""
    login.sh("rm runs/*/exit.json; sed -i 's/COMPLETED//; s/nid.*\\]//' runs/*/job.json; mkdir bin")
    login.write("bin/squeue", "#!/bin/sh")
    login.sh("chmod +x bin/squeue; until sacct -n | grep -q COMPLETED; do sleep 1; done")
    (row,) = json.loads(login.sh("PATH=$PWD/bin:$PATH runner list --json"))
    assert (row["state"], row["nodes"]) == ("COMPLETED", "nid[001000-001001]")
    assert row["elapsed"] < 300


def test_what_it_refuses_is_refused_by_both(case: Case, login: Login, trainer: str) -> None:
    for words, told in case.refuses:
        ended(login.launch(*TWO, *words, trainer), 80, told)
        forced = login.launch(*TWO, *words, "--force", trainer)
        ended(forced, 80, "Slurm refused the job; nothing was submitted")
    assert login.sh("squeue --noheader") == ""


@pytest.mark.parametrize("case", CASES[:1], indirect=True, ids=["neuron"])
def test_neuron_takes_jobs_from_scratch_only(case: Case, login: Login, trainer: str) -> None:
    home = Login("/home/ada")
    words = ("launch", "--image", IMAGE, *TWO, *case.takes, trainer)
    refused = home.runner(*words)
    ended(refused, 80, "neuron does not accept jobs submitted from /home/ada", "cd /scratch/ada")
    ended(home.runner(*words, "--force"), 80, "Slurm refused the job")


@pytest.mark.parametrize("case", CASES[:1], indirect=True, ids=["neuron"])
def test_neurons_gpus_in_instances(case: Case, login: Login, trainer: str) -> None:
    """Each rank sees one of its own, in each form; the image is the CPU one, hence --force.

    Stand-ins are nvidia-smi, which lists the two of the job, and a library for the driver's.
    """
    image = "/scratch/ada/images/horovod_cpu.sif"
    login.sh(f"apptainer exec {image} cp /lib/x86_64-linux-gnu/libm.so.6 library")
    login.write("nvidia-smi", f"#!/bin/sh\ncat << 'END'\n{INSTANCES}END")
    login.sh("chmod +x nvidia-smi")
    sees = login.write("sees.py", "import os; print('SEES', os.environ['CUDA_VISIBLE_DEVICES'])")
    binds = [f"library:{LIBRARIES}/libcuda.so.1", "nvidia-smi:/usr/bin/nvidia-smi"]
    words = ["--partition", "mig_amd_a100_4", "--comment", "pytorch", "--nv", "--force"]
    words += [word for bind in binds for word in ("--bind", bind)]
    for form in FORMS:
        done = succeeded(login.launch(*words, *form, "--no-gate", "--follow", "--all", sees))
        seen = re.findall(r"(\d)@gpu\d+ \| SEES (\S+)", done.stdout)
        assert dict(seen) == {"0": "MIG-c6d4f1ef", "1": "MIG-cba663e8"}, (form, done.stdout)
    assert "#SBATCH --gres=gpu:1g.10gb:2\n" in login.sh("cat runs/sees-1/job.sbatch")


def test_the_plain_launch_of_an_image_for_gpus(case: Case, login: Login) -> None:
    """As typed, then the line that the refusal names; Slurm counts the GPUs of the held job."""
    typed = AS_TYPED.get(case.name)
    if typed is None:
        return
    labelled(login)
    refused = login.runner("launch", "--image", "horovod_gpu.sif", "--nodes", "2", HELD)
    ended(refused, 80, *typed.told)
    (line,) = [text for text in TRY.findall(refused.stderr) if typed.choose in text]
    done = succeeded(login.run(*shlex.split(line.replace("PROJECT", PROJECT[1]))))
    assert typed.since in done.stderr
    assert of_the_job(login, "torch_mnist-1") == typed.gpus


def test_a_new_profile_fits_the_cluster(case: Case, login: Login) -> None:
    env = {"XDG_CONFIG_HOME": f"{login.folder}/config"}
    made = succeeded(login.runner("sites", "new", "mine", env=env))
    succeeded(login.runner("sites", "lint", made.stdout.strip(), env=env))
    shown = login.told("sites", "show", "mine", env=env)
    values = {row["key"]: row["value"] for row in shown["values"]}
    assert values["detect.clusters"] == case.name
    assert values["scheduler"] == "slurm"
