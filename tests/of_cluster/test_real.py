"""The test cluster itself: real nodes, real Slurm, real Apptainer, and nothing left after `down`.

Needs root, and the cluster up with two nodes or more (`make cluster-up`). The tests that stop or
break something use a cluster of their own with one node.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import nodes, processes
from tests.cluster.state import State

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the test cluster needs root")
CHECKOUT = Path(__file__).parents[2]


def cluster(*words: str, stdin: str = "", check: bool = True) -> subprocess.CompletedProcess[str]:
    """python3 -m tests.cluster *words*, at most two minutes."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.cluster", *words],
        input=stdin,
        capture_output=True,
        text=True,
        cwd=CHECKOUT,
        timeout=120,
    )
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


def sh(script: str, *options: str) -> str:
    """The output of a shell script that user ada runs on the login node."""
    return cluster("exec", *options, "--", "bash", "-ec", script).stdout


def test_exec_passes_exit_code_input_and_both_outputs() -> None:
    done = cluster("exec", "--", "sh", "-c", "cat; echo bad >&2; exit 7", stdin="in\n", check=False)
    assert (done.returncode, done.stdout, done.stderr) == (7, "in\n", "bad\n")


def test_exec_passes_arguments_unchanged() -> None:
    odd = ["a b", "$HOME", "'", '"', "x;y", "--", "-n", "", "zwei\nZeilen", "é"]
    done = cluster("exec", "--", "python3", "-c", "import sys; print(sys.argv[1:])", *odd)
    assert done.stdout == f"{odd}\n"


def test_exec_is_a_clean_login_of_ada(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAK", "1")
    found = dict(line.split("=", 1) for line in sh("env").splitlines())
    assert "LEAK" not in found
    assert (found["USER"], found["HOME"], found["PWD"]) == ("ada", "/home/ada", "/scratch/ada")
    assert found["RUNNER_SCRATCH"] == "/scratch/ada"
    assert found["PATH"].startswith("/opt/runner/bin:")


def test_exec_on_another_node_and_as_root() -> None:
    assert sh("hostname; id -un", "--node", "n2", "--as", "root").split() == ["n2", "root"]


def test_exec_on_a_node_that_is_not_there() -> None:
    done = cluster("exec", "--node", "n99", "--", "true", check=False)
    assert done.returncode == 1
    assert "node 'n99' of the cluster is not running" in done.stderr


def test_tasks_run_on_both_nodes() -> None:
    assert sorted(sh("srun -N2 --ntasks-per-node=2 hostname").split()) == ["n1", "n1", "n2", "n2"]


def test_nodes_have_their_own_addresses_and_reach_each_other() -> None:
    text = sh("srun -N2 --ntasks-per-node=1 ip -4 -o address show dev eth0")
    assert "10.77.0.2/16" in text
    assert "10.77.0.3/16" in text
    sh("ping -c1 -W2 n1; ping -c1 -W2 n2", "--node", "n2", "--as", "root")


def test_tmp_and_shm_are_private_scratch_and_home_are_shared() -> None:
    sh("touch /tmp/mark /dev/shm/mark /scratch/ada/mark ~/mark", "--node", "n1")
    assert sh("ls -d /tmp/mark /dev/shm/mark || true", "--node", "n2") == ""
    sh("ls /scratch/ada/mark ~/mark; rm /scratch/ada/mark ~/mark", "--node", "n2")
    sh("rm /tmp/mark /dev/shm/mark", "--node", "n1")


def test_the_checkout_is_there_and_cannot_be_written() -> None:
    sh("test -f /opt/kit/pyproject.toml")
    assert "Read-only" in sh("touch /opt/kit/x 2>&1 || true", "--as", "root")


def test_mpi_ranks_sum_over_two_nodes_with_pmix() -> None:
    text = sh("srun --mpi=pmix -N2 --ntasks-per-node=2 python3 /opt/kit/tests/real/mpi_sum.py")
    assert sorted(text.splitlines()) == [f"rank {rank} of 4: sum 6" for rank in range(4)]


def test_gpus_are_counted_and_typed() -> None:
    show = 'echo "$SLURMD_NODENAME $CUDA_VISIBLE_DEVICES"'
    text = sh(f"srun -p gpu -N2 --ntasks-per-node=1 --gpus-per-node=A100:4 bash -c '{show}'")
    assert sorted(text.splitlines()) == ["n1 0,1,2,3", "n2 0,1,2,3"]


@pytest.mark.parametrize("asked", ["--gpus-per-node=A100:5", "--gpus-per-node=V100:1", "-N99"])
def test_what_the_cluster_does_not_have_is_refused_at_once(asked: str) -> None:
    done = cluster("exec", "--", "srun", "-p", "gpu", asked, "true", check=False)
    assert done.returncode != 0
    assert "error" in done.stderr


def test_sacct_does_not_work() -> None:
    assert "disabled" in sh("sacct 2>&1 || true")


def test_runner_is_installed() -> None:
    sh("test -x /opt/runner/bin/runner; /opt/runner/bin/python -c 'import click, spython, runners'")


MAKE_IMAGE = """
cd "$(mktemp -d)"
mkdir -p root/bin root/tmp root/proc root/sys root/dev root/etc root/home root/var/tmp
for file in /bin/sh /bin/hostname $(ldd /bin/sh /bin/hostname | grep -o '/[^ )]*'); do
    [ -f "$file" ] && cp -L --parents "$file" root
done
cp -L /bin/sh /bin/hostname root/bin
APPTAINER_TMPDIR=$PWD apptainer -q build --force /scratch/ada/tiny-test.sif root
"""


def test_apptainer_builds_and_runs_as_ada_on_both_nodes() -> None:
    sh(MAKE_IMAGE)
    run = "apptainer -q exec /scratch/ada/tiny-test.sif hostname"
    text = sh(f"srun --mpi=none -N2 --ntasks-per-node=2 {run}")
    assert sorted(text.split()) == ["n1", "n1", "n2", "n2"]
    sh("rm /scratch/ada/tiny-test.sif")


def test_toolbox_is_the_same_tree_in_the_hosts_network(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "mark").write_text("here\n")
    script = "id -un; cat /mnt/mark; readlink /proc/self/ns/net; exit 5"
    done = cluster("toolbox", "--bind", f"{tmp_path}:/mnt", "--", "bash", "-c", script, check=False)
    assert done.returncode == 5
    assert done.stdout == f"ada\nhere\n{os.readlink('/proc/self/ns/net')}\n"


@pytest.fixture
def small(tmp_path: Path) -> Iterator[str]:
    """The folder of a one-node cluster of our own beside the other one."""
    state = str(tmp_path / "state, of ours")
    try:
        cluster("--state", state, "up", "--nodes", "1")
        yield state
    finally:
        cluster("--state", state, "down")


def node_pids(state: str) -> dict[str, int | None]:
    """The process 1 of each node."""
    return nodes.inits(State.locate(state))


def everything_on_the_host() -> tuple[list[str], list[str], list[str]]:
    """Mount points, network interfaces, and namespaces that processes are in."""
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return mounts, sorted(os.listdir("/sys/class/net")), os.listdir("/run")


def test_down_leaves_nothing(small: str) -> None:
    before = everything_on_the_host()
    spaces = processes.namespaces_below(State.locate(small).namespaces)
    assert set(spaces) == {"switch", "login", "n1"}
    assert processes.members("net", spaces.values())
    cluster("--state", small, "exec", "--", "sbatch", "--wrap", "sleep 1000")
    cluster("--state", small, "down")
    after = everything_on_the_host()
    assert processes.members("net", spaces.values()) == []
    assert [mount for mount in after[0] if small in mount] == []
    assert after[1:] == before[1:]
    assert "is down" in cluster("--state", small, "status", check=False).stderr


def test_up_leaves_a_running_cluster_alone(small: str) -> None:
    before = node_pids(small)
    cluster("--state", small, "up", "--nodes", "1")
    assert node_pids(small) == before


@pytest.mark.parametrize(("node", "victim"), [("n1", "slurmd"), ("login", "slurmctld")])
def test_up_repairs_after_a_daemon_was_killed(small: str, node: str, victim: str) -> None:
    cluster("--state", small, "exec", "--as", "root", "--node", node, "--", "pkill", "-9", victim)
    cluster("--state", small, "up", "--nodes", "1")
    assert cluster("--state", small, "exec", "--", "srun", "hostname").stdout == "n1\n"


def test_up_repairs_after_a_whole_node_was_killed(small: str) -> None:
    pid = node_pids(small)["n1"]
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    cluster("--state", small, "up", "--nodes", "1")
    assert node_pids(small)["n1"] not in (None, pid)
    assert cluster("--state", small, "exec", "--", "srun", "hostname").stdout == "n1\n"


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_up_begins_anew_after_one_that_was_interrupted(small: str, how: signal.Signals) -> None:
    """As `make demo` is, by somebody who does not want to wait."""
    cluster("--state", small, "down")
    command = [sys.executable, "-m", "tests.cluster", "--state", small, "up", "--nodes", "1"]
    interrupted = subprocess.Popen(command, cwd=CHECKOUT, stderr=subprocess.DEVNULL)
    while not node_pids(small).get("login"):
        assert interrupted.poll() is None
        time.sleep(0.02)
    interrupted.send_signal(how)
    assert interrupted.wait() != 0
    cluster("--state", small, "up", "--nodes", "1")
    assert cluster("--state", small, "exec", "--", "srun", "hostname").stdout == "n1\n"


def test_job_ids_go_on_rising_after_a_restart(small: str) -> None:
    submit = ["--state", small, "exec", "--", "sbatch", "--parsable", "--wrap", "true"]
    first = int(cluster(*submit).stdout)
    cluster("--state", small, "down")
    cluster("--state", small, "up", "--nodes", "1")
    assert int(cluster(*submit).stdout) > first
