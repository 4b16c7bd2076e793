"""The shim that runs in the image: place in the world, rendezvous, gate, supervision."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

import runners.rank
from runners import jobs
from runners.rank import failure, gate, network, rendezvous, task

RANK = Path(runners.rank.__file__).parent
SRUN = {
    "SLURM_PROCID": "3",
    "SLURM_NTASKS": "4",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "1",
    "SLURM_TASKS_PER_NODE": "3,1",
    "SLURM_JOB_NODELIST": "n[1-2]",
    "SLURM_JOB_ID": "42",
    "SLURM_STEP_ID": "0",
    "SLURMD_NODENAME": "n2",
}


@pytest.mark.parametrize(
    ("text", "counts"),
    [("2", (2,)), ("2(x3),1", (2, 2, 2, 1)), ("3,1", (3, 1)), ("1,2(x2)", (1, 2, 2))],
)
def test_tasks_per_node(text: str, counts: tuple[int, ...]) -> None:
    assert task.expand_counts(text) == counts


def test_tasks_per_node_in_another_form_is_an_error() -> None:
    with pytest.raises(task.TaskError, match="2x3"):
        task.expand_counts("2x3")


@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        ("n1", "n1"),
        ("n[03-05,7],m1", "n03"),
        ("n[5,7]", "n5"),
        ("rack[1-2]node[4-9]", "rack1node4"),
        ("a-1,b-2", "a-1"),
        ("nid[001000-001003]", "nid001000"),
    ],
)
def test_first_host(nodes: str, first: str) -> None:
    assert task.first_host(nodes) == first


def test_place_with_uneven_tasks() -> None:
    me = task.read("srun", SRUN)
    assert (me.rank, me.size, me.local_rank, me.local_size) == (3, 4, 0, 1)
    assert (me.cross_rank, me.cross_size) == (1, 2)  # both nodes have a local rank 0
    assert (me.name, me.first_host) == ("3@n2", "n1")


def test_place_of_a_local_rank_that_one_node_lacks() -> None:
    me = task.read("srun", {**SRUN, "SLURM_PROCID": "2", "SLURM_LOCALID": "2", "SLURM_NODEID": "0"})
    assert (me.cross_rank, me.cross_size) == (0, 1)


def test_ranks_form_one_grid() -> None:
    """Every (cross, local) pair appears once, for any distribution of tasks over nodes."""
    seen = set()
    for node, count in enumerate((3, 1, 2)):
        for local in range(count):
            env = {**SRUN, "SLURM_TASKS_PER_NODE": "3,1,2", "SLURM_NODEID": str(node)}
            me = task.read("srun", {**env, "SLURM_LOCALID": str(local)})
            seen.add((me.cross_rank, local))
            assert me.cross_rank < me.cross_size
    assert len(seen) == 6


def test_without_a_launcher_the_missing_variable_is_named() -> None:
    with pytest.raises(task.TaskError, match="SLURM_TASKS_PER_NODE"):
        task.read("srun", {})


def test_rendezvous_keeps_what_is_put() -> None:
    sock = rendezvous.listen("127.0.0.1", "test-1")
    rendezvous.serve(sock, "test-1")
    address, port = rendezvous.find("127.0.0.1", "test-1", seconds=5)
    url = f"http://{address}:{port}/global/0"
    with pytest.raises(urllib.error.HTTPError) as absent:
        urllib.request.urlopen(url)
    assert absent.value.code == 404
    put = urllib.request.Request(url, data=b"\x00address", method="PUT")
    urllib.request.urlopen(put).close()
    with urllib.request.urlopen(url) as answer:
        assert answer.read() == b"\x00address"
    sock.close()


def test_rendezvous_of_another_job_is_not_mistaken() -> None:
    other = rendezvous.listen("127.0.0.1", "job-a")
    rendezvous.serve(other, "job-b")  # answers on the ports of job-a with another name
    with pytest.raises(rendezvous.RendezvousError, match="did not answer"):
        rendezvous.find("127.0.0.1", "job-a", seconds=0.1)
    other.close()


def test_rendezvous_takes_the_next_port_when_one_is_taken() -> None:
    first, second = (rendezvous.listen("127.0.0.1", "same") for _ in range(2))
    ports = [sock.getsockname()[1] for sock in (first, second)]
    assert ports == list(rendezvous.candidate_ports("same"))[:2]
    first.close()
    second.close()


def test_rendezvous_says_when_all_ports_are_taken() -> None:
    taken = [rendezvous.listen("127.0.0.1", "full") for _ in range(rendezvous.PORTS_TRIED)]
    with pytest.raises(rendezvous.RendezvousError, match="no free port"):
        rendezvous.listen("127.0.0.1", "full")
    for sock in taken:
        sock.close()


def test_interface_of_loopback() -> None:
    assert network.interface_towards("127.0.0.1") == "lo"


def test_address_is_open_when_the_host_name_leads_to_loopback() -> None:
    assert network.own_address("localhost", one_host=False) == ""
    assert network.own_address("localhost", one_host=True) == "127.0.0.1"


@pytest.mark.parametrize(
    ("controller", "mpi", "remedy"),
    [("mpi", "none", "--mpi pmix"), ("mpi", "pmi2", "gloo"), ("gloo", "none", "check-build")],
)
def test_gate_message(
    controller: str, mpi: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_MPI_TYPE", mpi)
    me = task.read("srun", {**SRUN, "SLURM_PROCID": "0"})
    text = gate.mismatch(me, controller, size=1, rank=0)
    assert "rank 0@n2" in text
    assert "4 tasks were started" in text
    assert "world of 1" in text
    assert remedy in text


def test_failure_names_the_error_and_the_signal() -> None:
    tail = ["Traceback (most recent call last):", "ValueError: boom", "bye"]
    assert failure.describe(1, tail) == "exit code 1: ValueError: boom"
    assert failure.describe(137, tail) == "killed by signal 9 (SIGKILL)"
    assert failure.describe(7, ["nothing of use"]) == "exit code 7"


HOROVOD = """
class HorovodBasics:
    def init(self, comm=None):
        if comm: import os; os._exit(1)
    def size(self): return {size}
    def rank(self): return 0
"""


def run_shim(
    tmp_path: Path, trainer: str, *args: str, tasks: int = 2, size: int = 2
) -> tuple[int, str]:
    """Run the real shim around a trainer, with a stand-in for Horovod that says it has `size`."""
    package = tmp_path / "horovod" / "common"
    package.mkdir(parents=True)
    (tmp_path / "horovod" / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "basics.py").write_text(HOROVOD.format(size=size))
    (tmp_path / "train.py").write_text(trainer)
    options = ["--tasks", str(tasks), "--controller", "gloo", "--run-dir", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, str(RANK), *options, "--", str(tmp_path / "train.py"), *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=30,
        text=True,
    )
    return done.returncode, done.stdout


INIT = "from horovod.common.basics import HorovodBasics\nHorovodBasics().init()\n"


def test_shim_passes_arguments_and_labels_lines(tmp_path: Path) -> None:
    hostile = ["a b", "$HOME", "x;y", "é,:", "--", "-n"]
    code, out = run_shim(tmp_path, INIT + "import sys; print(sys.argv[1:])", *hostile)
    host = os.uname().nodename
    assert code == 0
    assert sorted(out.splitlines()) == [f"{rank}@{host} | {hostile}" for rank in (0, 1)]


def test_shim_stops_a_world_of_the_wrong_size(tmp_path: Path) -> None:
    after = "print('trained alone')"
    code, out = run_shim(
        tmp_path, f"try:\n  {INIT.replace(chr(10), '; ')}{after}\nfinally: pass", size=1
    )
    assert code == gate.EXIT_WORLD_SIZE
    assert "world-size mismatch" in out
    assert "trained alone" not in out
    blamed = jobs.first_failure(jobs.JobPaths(tmp_path))  # the other was ended, or was as fast
    assert blamed is not None
    assert blamed["exit_code"] == gate.EXIT_WORLD_SIZE


def test_shim_shows_the_trainers_traceback_and_no_other(tmp_path: Path) -> None:
    code, out = run_shim(
        tmp_path, INIT + "def f():\n    raise ValueError('boom')\nf()", tasks=1, size=1
    )
    assert code == 1
    assert "ValueError: boom" in out
    assert "runners" not in out.split("failed:")[0]
    assert "runpy" not in out


def test_shim_ends_the_others_when_one_fails(tmp_path: Path) -> None:
    trainer = INIT + (
        "import os, sys, time\n"
        "if os.environ['HOROVOD_RANK'] == '1': os.kill(os.getpid(), 9)\n"
        "time.sleep(60)"
    )
    code, out = run_shim(tmp_path, trainer)
    assert code == 137
    assert "runner: rank 1@" in out
    assert "signal 9 (SIGKILL)" in out


def test_shim_says_when_nobody_formed_a_world(tmp_path: Path) -> None:
    code, out = run_shim(tmp_path, "print('done')")
    assert code == 0
    assert "without hvd.init(): 2 copies ran" in out


def test_shim_keeps_the_trainers_exit_code(tmp_path: Path) -> None:
    assert run_shim(tmp_path, "import sys; sys.exit(7)", tasks=1)[0] == 7


def test_shim_explains_an_end_within_init(tmp_path: Path) -> None:
    """MPI_Init ends the process by itself, so nothing in it can say why."""
    trainer = INIT.replace("HorovodBasics().init()", "HorovodBasics().init(comm='die')")
    code, out = run_shim(tmp_path, trainer, tasks=1, size=1)
    assert code == gate.EXIT_WORLD_SIZE
    assert "no world on rank 0@" in out
    assert "likely cause:" in out


def read_failure(tmp_path: Path, rank: int = 0) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((tmp_path / "failures" / f"rank-{rank}.json").read_text())
    return record


@pytest.mark.parametrize(
    ("end", "code", "message"),
    [
        ("sys.exit(7)", 7, "exit code 7"),
        ("sys.exit('no data')", 1, "exit code 1: no data"),
        ("raise ValueError('a\\nb')", 1, "exit code 1: ValueError: a"),
        ("raise StopIteration", 1, "exit code 1: StopIteration:"),
    ],
)
def test_a_failure_is_recorded_before_the_others_can_react(
    tmp_path: Path, end: str, code: int, message: str
) -> None:
    """On the way out Horovod tells the other ranks, and the launcher then ends this one."""
    react = "import atexit, os, sys; atexit.register(os.kill, os.getpid(), 15)\n"
    run_shim(tmp_path, INIT + react + end, tasks=1, size=1)
    record = read_failure(tmp_path)
    assert (record["exit_code"], record["message"].strip()) == (code, message)
