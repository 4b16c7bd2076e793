"""Other ways to run than a container with its own MPI under sbatch: all for real.

Within an allocation; with the host's MPI in the image; and in an environment without a container.
"""

from __future__ import annotations

import os
import re

import pytest

from .conftest import IMAGE, UNPACKED, Login, ended, succeeded

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the test cluster needs root")
HELLO = """
import os
import sys
import time
import horovod.torch as hvd
import torch
hvd.init()
total = hvd.allreduce(torch.ones(1) * (hvd.rank() + 1), op=hvd.Sum).item()
print("rank", hvd.rank(), "of", hvd.size(), "total", total, "in", sys.prefix, flush=True)
time.sleep(float(os.environ.get("HOLD", "0")))
hvd.shutdown()
"""
RANK = re.compile(r"^\d@(n\d) \| rank (\d) of (\d) total ([\d.]+) in (\S+)$", re.MULTILINE)
TWO = ("--nodes", "2", "--ntasks-per-node", "1")
HOST_MPI = 90


def ranks(output: str) -> list[tuple[str, ...]]:
    """What the ranks of a job printed: node, rank, size, total, prefix."""
    return sorted(found.groups() for found in RANK.finditer(output))


@pytest.fixture
def hello(login: Login) -> str:
    return login.write("hello.py", HELLO)


def in_allocation(login: Login, *commands: str) -> str:
    """Run shell commands within a job of two nodes, with room for four ranks on each."""
    inner = login.write("inner.sh", "\n".join(["set -e", *commands]))
    done = succeeded(
        login.run(
            "salloc", "--quiet", "-N2", "--ntasks-per-node=4", "timeout", "250", "bash", inner
        )
    )
    return done.stdout


def test_parts_of_an_allocation(login: Login, hello: str) -> None:
    launch = f"runner launch --scheduler allocation --image {UNPACKED}"
    one_node = in_allocation(
        login,
        f"{launch} --all --nodes 1 --ntasks-per-node 2 --nodelist n2 --controller mpi {hello}",
        f"{launch} --nodes 3 {hello} 2> refused || echo code $?",
    )
    prefix = "/opt/horovod"
    assert ranks(one_node) == [("n2", str(r), "2", "3.0", prefix) for r in range(2)]
    assert "code 80" in one_node
    assert "has 2 nodes, fewer than --nodes 3" in login.sh("cat refused")
    jobs = login.told("list")
    assert [job["state"] for job in jobs] == ["COMPLETED"]
    assert re.fullmatch(r"\d+\.local-\d+-\d+", jobs[0]["id"])


def test_all_of_an_allocation_and_a_preset_that_gives_way(login: Login) -> None:
    words = ["runner", "launch", "--scheduler", "allocation", "--image", UNPACKED, "torch_lm"]
    fewer = ["env", "-u", "RUNNER_CPUS_PER_TASK", "salloc", "--quiet", "-N2"]
    succeeded(login.run(*fewer, *words, "--", "--epochs", "1", "--max-steps", "4"))
    assert login.told("result")["world_size"] == 2
    script = login.sh("cat runs/torch_lm-1/job.sbatch")
    assert "cpus-per-task: 1 (available per rank in job" in script
    assert "the trainer's preset: 2)" in script


def test_a_job_in_an_allocation_is_cancelled_and_the_allocation_stays(
    login: Login, hello: str
) -> None:
    launch = f"runner launch --scheduler allocation --image {UNPACKED} --controller gloo"
    said = in_allocation(
        login,
        f"id=$({launch} --nodes 2 --ntasks-per-node 1 --env HOLD=300 --parsable {hello})",
        "until [ $(runner logs --all | grep -c ' of 2 total') = 2 ]; do sleep 0.5; done",
        "runner cancel $id",
        "runner wait || echo code $?",
        "until [ $(squeue --noheader --steps | grep -vc extern) = 0 ]; do sleep 0.5; done",
        "srun --nodes=2 --ntasks=2 --overlap hostname",
    )
    assert "code 86" in said
    assert sorted(said.split()[-2:]) == ["n1", "n2"]


def test_a_host_mpi_that_is_too_new_for_the_image_is_told_before_the_job(
    login: Login, hello: str
) -> None:
    """Debian 13's Open MPI needs a newer C library than the image, a Debian 12, has."""
    done = ended(login.launch(*TWO, "--host-mpi", "--follow", "--all", hello), HOST_MPI)
    assert "the image's C library is too old for the host's MPI" in done.stdout
    assert "needs GLIBC_2." in done.stderr
    assert "cause:         the host's MPI libraries do not work in the image" in done.stderr
    assert not ranks(done.stdout)


def test_a_path_that_does_not_lead_to_the_hosts_mpi_is_told(login: Login, hello: str) -> None:
    """Say that the host's MPI is in an empty folder: the image's own would be taken silently."""
    login.sh("mkdir -p empty config/runner/sites")
    login.write(
        "config/runner/sites/empty.toml",
        f'base = "slurm"\n[host_mpi]\nbinds = ["{login.folder}/empty:/empty"]\n'
        'library_path = "/empty"\n[sources]\nhost_mpi = { text = "test", date = "2026-11-21" }\n',
    )
    env = {"XDG_CONFIG_HOME": f"{login.folder}/config"}
    words = (
        "launch",
        "--image",
        IMAGE,
        *TWO,
        "--host-mpi",
        "--site",
        "empty",
        "--follow",
        "--all",
        hello,
    )
    done = ended(login.runner(*words, env=env), HOST_MPI)
    assert "Horovod finds the image's own MPI" in done.stdout
    assert "the host's are in /empty" in done.stdout


# Changes what the main partition of a SIF says of its machine.
FOR_ARM = """
import pathlib, struct
ours, arm = (struct.pack("<ii3s", 1, 2, code) for code in (b"02", b"04"))
raw = pathlib.Path("shell.sif").read_bytes()
assert raw.count(ours) == 1
pathlib.Path("shell.arm64.sif").write_bytes(raw.replace(ours, arm))
"""


def test_a_launch_takes_the_image_for_its_nodes(login: Login) -> None:
    login.sh(f"bash /opt/kit/tests/real/tiny.sh > tiny.log 2>&1; python3 -c '{FOR_ARM}'")
    site = ("--site", "neuron", "--comment", "pytorch", "--dry-run", "--no-gate")
    launch = ("launch", "--image", "shell.sif", *site, login.write("train.py", "pass"))
    done = succeeded(login.runner(*launch, "--partition", "gh200_1"))
    assert f"{login.folder}/shell.arm64.sif" in done.stdout
    assert "the nodes are arm64, for which there is shell.arm64.sif" in done.stdout
    done = login.runner(*launch, "--partition", "cas_v100_4")
    assert "shell.arm64.sif" not in done.stdout
    done = login.runner(*launch, "--partition", "cas_v100_4,gh200_1")
    assert done.returncode == 80
    assert "the job may get nodes of several architectures, but an image is for one" in done.stderr
    assert "cas_v100_4 amd64, gh200_1 arm64" in done.stderr
    login.sh("rm shell.arm64.sif")
    done = login.runner(*launch, "--partition", "gh200_1")
    ended(done, 80, "the image is for amd64, but the nodes of gh200_1 are arm64")
