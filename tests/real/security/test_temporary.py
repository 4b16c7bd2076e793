"""The job's own temporary folder on each node: who sees it, and when it is gone."""

from __future__ import annotations

import os
import time

import pytest

from tests.real.conftest import Login, on_cluster, succeeded

from .conftest import Job, Stranger, start

NODES = ("n1", "n2")
TWO = ("--nodes", "2", "--ntasks-per-node", "2", "--no-gate")
NONE = ("--controller", "none")
# Each rank leaves a file in its temporary folder, says where that is, and goes on as it is told.
TRAINER = """
import os, signal, subprocess, sys, tempfile, time
how, folder = sys.argv[1], tempfile.gettempdir()
open(f"{folder}/of-{os.environ['RANK']}", "w").close()
child = [sys.executable, "-c", "import os, sys; print(os.path.realpath(sys.pycache_prefix))"]
prefix = subprocess.run(child, capture_output=True, text=True).stdout.strip()
mode, own = oct(os.stat(folder).st_mode)[-3:], os.path.realpath(sys.pycache_prefix)
print("USES", folder, mode, prefix, own, flush=True)
if how == "saves":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
go = os.path.join(os.path.dirname(__file__), "go")
while how != "ends" and not os.path.exists(go):
    time.sleep(0.2)
if how == "fails" and os.environ["RANK"] == "1":
    sys.exit(7)
time.sleep(60 * (how == "fails"))
"""
# Bob answers at the port of an X display, and notes whose processes come.
DISPLAY = """
import socket
sock = socket.socket()
sock.bind(("127.0.0.1", 6000))
sock.listen()
print("LISTENS", flush=True)
while True:
    _, (_, port) = sock.accept()
    lines = [line.split() for line in open("/proc/net/tcp")]
    print("UID", *(line[7] for line in lines if line[1].endswith(f":{port:04X}")), flush=True)
"""
HELLO = """
import os
from mpi4py import MPI
print("SIZE", MPI.COMM_WORLD.Get_size(), os.environ["HWLOC_COMPONENTS"])
"""


def left(node: str) -> str:
    """Return what of ada's is in a node's /tmp, but for a folder of Slurm's PMIx plugin."""
    found = ["find", "/tmp", "-mindepth", "1", "-name", "spmix_appdir_*", "-prune"]
    found += ["-o", "-user", "ada", "-print"]
    return on_cluster(found, user="root", node=node).stdout


def uses(job: Job) -> list[list[str]]:
    """Return what each rank says of its folder."""
    lines = [line.partition("| USES ")[2] for line in job.log.splitlines()]
    return [line.split() for line in lines if line]


def started(login: Login, how: str, *words: str) -> Job:
    job = start(login, *TWO, *words, login.write("t.py", TRAINER), "--", how)
    job.wait_for("USES")
    deadline = time.monotonic() + 120
    while len(uses(job)) < 4:
        assert time.monotonic() < deadline, job.log
        time.sleep(0.2)
    return job


def check(job: Job) -> list[str]:
    """Check the folders of a job that runs; return that of each node."""
    folders = {folder for folder, *_ in uses(job)}
    for folder, mode, *prefixes in uses(job):
        assert mode == "700"
        assert [os.path.dirname(prefix) for prefix in prefixes] == [folder] * 2
        assert len(set(prefixes)) == 1
        assert len(folder) < 60
    return sorted(folders)


@pytest.mark.parametrize(
    "words",
    [
        NONE,
        ("--controller", "mpi"),
        (*NONE, "--launcher", "torchrun"),
        (*NONE, "--apptainer-arg=--contain"),
    ],
    ids=" ".join,
)
def test_ranks_of_a_node_share_it_and_it_goes_with_them(
    login: Login, bob: Stranger, words: tuple[str, ...]
) -> None:
    job = started(login, "waits", *words)
    folders = check(job)
    if "--apptainer-arg=--contain" not in words:  # whose /tmp each container has for itself
        assert len(folders) == 2, "one on each node, under different names"
        for folder in folders:
            assert bob.run("ls", folder, node="n1").returncode != 0
        found = "".join(map(left, NODES))
        assert [found.count(f"/of-{rank}\n") for rank in range(4)] == [1, 1, 1, 1]
    login.sh("touch go")
    assert job.end() == 0, job.log
    assert "".join(map(left, NODES)) == ""


@pytest.mark.parametrize(
    ("how", "command", "code"),
    [
        ("fails", "touch go", 7),  # srun kills the other ranks
        ("waits", "scancel {id}", 86),
        ("waits", "scancel --signal=KILL {id}", 86),
    ],
)
def test_it_is_gone_after_a_failure_and_when_ranks_are_killed(
    login: Login, how: str, command: str, code: int
) -> None:
    job = started(login, how, *NONE)
    login.sh(command.format(id=job.id))
    assert job.end() == code, job.log
    login.sh(f"while squeue --noheader --job {job.id} 2>/dev/null | grep -q .; do sleep 0.2; done")
    assert "".join(map(left, NODES)) == ""


def test_what_a_killed_script_leaves_the_next_job_removes(login: Login) -> None:
    job = started(login, "waits", *NONE)
    login.sh(f"scancel --full --signal=KILL {job.id}")
    job.end()
    assert start(login, *TWO, *NONE, login.write("u.py", "print('DONE')")).end() == 0
    assert "".join(map(left, NODES)) == ""


def test_where_the_user_or_site_says(login: Login) -> None:
    """A folder that all may write in gets one below it; the user's own stays; none in a shell."""
    open_to_all = "/scratch/shared/t"
    on_cluster(["install", "-d", "-m", "1777", open_to_all], user="root")
    login.sh("mkdir -m 755 own")
    own = f"{login.folder}/own"
    for given in (open_to_all, own):
        more = ("--bind", given, "--env", f"TMPDIR={given}")
        job = start(login, *TWO, *NONE, *more, login.write("t.py", TRAINER), "--", "ends")
        assert job.end() == 0, job.log
        for folder, mode, *prefixes in uses(job):
            assert (folder == own) is (given == own)
            assert mode == ("755" if given == own else "700")
            assert all(prefix.startswith(f"{given}/runner-") for prefix in prefixes)
        left = [f"of-{r}" for r in range(4)] if given == own else []
        assert login.sh(f"ls -A {given}").split() == left


def test_commands_beside_the_ranks_have_one_of_their_own(login: Login) -> None:
    job = started(login, "waits", *NONE)
    told = "tempfile.gettempdir(), os.path.realpath(sys.pycache_prefix)"
    show = f"import os, sys, tempfile; print({told})"
    done = succeeded(login.runner("exec", job.id, "--", "sh", "-c", f"python3 -c '{show}'"))
    folder, prefix = done.stdout.split()
    assert folder not in check(job)
    assert os.path.dirname(prefix) == folder
    login.sh("touch go")
    assert job.end() == 0, job.log


def test_no_rank_looks_for_a_display(login: Login, bob: Stranger) -> None:
    """Slurm's own daemon does, as root, where its PMIx uses hwloc (before 25.11)."""
    bob.write("display.py", DISPLAY)
    for node in NODES:
        bob.start(f"exec python3 display.py > heard-{node} 2>&1", node)
    job = start(login, "--nodes", "2", "--controller", "mpi", login.write("h.py", HELLO))
    assert job.end() == 0, job.log
    assert job.log.count("SIZE 2 -gl") == 2
    for node in NODES:
        assert "UID 1000" not in bob.sh(f"cat heard-{node}")
