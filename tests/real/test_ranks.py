"""Ranks find each other and their places: real Horovod, real Slurm, odd counts, odd networks."""

from __future__ import annotations

import re
import time

import pytest

from .beside import cluster
from .conftest import UNPACKED, Login, new_folder, succeeded
from .places import check, places, prepare, run, shim

ALLOCATE = "salloc -Q -N2 --ntasks-per-node=3 --overcommit"


@pytest.fixture
def folder(login: Login) -> Login:
    """A folder with the shim and the trainers in it."""
    prepare(login)
    return login


def test_uneven_counts_both_ways_round(folder: Login) -> None:
    """Four ranks as 3,1, then cyclic, on a part of each node of one allocation."""
    three_and_one = "srun --mpi=none -n4 -m arbitrary --nodelist=n1,n1,n1,n2 --overcommit"
    block = places(run(folder, f"{ALLOCATE} {three_and_one} {shim('gloo')}"))
    check(block, 4)
    assert [block[rank]["host"] for rank in range(4)] == ["n1", "n1", "n1", "n2"]
    cyclic = f"srun --mpi=none -n4 -m cyclic --overcommit {shim('gloo', trainer='bare.py')}"
    found = places(run(folder, f"{ALLOCATE} {cyclic}"))
    check(found, 4)
    assert [found[rank]["host"] for rank in range(2)] == ["n1", "n2"]


def test_32_ranks_on_two_nodes(folder: Login) -> None:
    words = shim("gloo", trainer="bare.py")
    found = places(run(folder, f"srun --mpi=none -N2 -n32 --overcommit {words}"))
    check(found, 32)
    listening = folder.sh("cat run/rendezvous.json")
    assert '"places": [["10.77.' in listening


def test_two_jobs_at_once_on_the_same_nodes(folder: Login) -> None:
    one, two = (
        f"srun --mpi=none -N2 -n2 {shim('gloo', run_dir=name, trainer='bare.py')}" for name in "ab"
    )
    done = run(folder, f"mkdir -p a b; {two} > b/out & {one}; wait $! && cat b/out >&2")
    check(places(done), 2)
    done.stdout, done.stderr = done.stderr, done.stdout
    check(places(done), 2)


def test_mpirun_with_rank_0_on_the_second_node(folder: Login) -> None:
    """Open MPI 5 of the nodes starts containers with Open MPI 4, which Gloo does not mind."""
    mpirun = "mpirun --bind-to none --oversubscribe -np 4 --host n2:1,n1:3"
    words = shim("gloo", "--launcher", "mpirun", trainer="bare.py")
    found = places(run(folder, f"{ALLOCATE} {mpirun} {words}"))
    check(found, 4)
    assert [found[rank]["host"] for rank in range(4)] == ["n2", "n1", "n1", "n1"]


def test_horovodrun_brings_its_own_rendezvous(folder: Login) -> None:
    words = shim("gloo", "--launcher", "horovodrun")
    words = words.replace("python3 injob rank", "horovodrun --gloo -np 2 python3 injob rank")
    done = run(folder, f"srun --mpi=none -N1 -n1 {words}")
    check(places(done), 2)


SECONDS = "APPTAINERENV_HOROVOD_GLOO_TIMEOUT_SECONDS=9"
LATE = "[ $SLURM_PROCID != 3 ] || sleep 60; exec"
# Ask like Horovod's client, without the secret, and say how many bytes come back.
STRANGER = """
import json, os, socket, time
while not os.path.exists("run/rendezvous.json") or not os.path.getsize("run/rendezvous.json"):
    time.sleep(0.1)
with open("run/rendezvous.json") as file:
    hub = json.load(file)
with socket.create_connection(tuple(hub["places"][0])) as sock:
    sock.sendall(b"GET /global/0 HTTP/1.1\\r\\n" + b"Host: x\\r\\n" * 9 + b"\\r\\n")
    print("HEARD", len(sock.recv(4096)))
"""


def test_a_rank_that_never_starts_is_named_and_strangers_hear_nothing(folder: Login) -> None:
    """The address is open while a rank is missing, so a stranger can try it."""
    folder.write("late.sh", f"{LATE} {shim('gloo', trainer='bare.py')}")
    folder.write("stranger.py", STRANGER)
    srun = "srun --mpi=none -N2 -n4 --ntasks-per-node=2 --kill-on-bad-exit=1 --overcommit"
    began = time.monotonic()
    done = run(folder, f"{SECONDS} {srun} bash late.sh & python3 stranger.py; wait $!")
    assert done.returncode != 0
    assert "HEARD 0" in done.stdout
    assert "the ranks did not meet: after 9 s rank 3 (on n2) has not started" in done.stdout
    assert re.search(r"rank [012]@n\d failed: after 9 s rank 3 \(on n2\)", done.stdout)
    assert "rank 3 (on n2) has not started" in folder.sh("cat run/failures/*")
    assert time.monotonic() - began < 50


def test_an_interface_that_is_not_there(folder: Login) -> None:
    done = run(folder, f"srun --mpi=none -N1 -n1 {shim('gloo', '--network-interfaces', 'ib7,ib8')}")
    assert done.returncode != 0
    assert re.search(r"n1 has no interface ib7 or ib8 .*; it has: eth0 \(10\.77", done.stdout)


def test_the_images_horovod_needs_no_name_of_the_node(folder: Login) -> None:
    """Without the shim, where the node's name does not resolve, as in many containers."""
    folder.write("hosts", "127.0.0.1 localhost\n")
    inside = f"apptainer exec --bind {folder.folder}/hosts:/etc/hosts {UNPACKED}"
    ranks = "horovodrun --gloo --network-interfaces lo -np 2 -H localhost:2 python3 place.py"
    said = succeeded(folder.run("bash", "-c", f"{inside} {ranks}")).stdout
    assert said.count('"total": 3, "interface": "lo"') == 2, said


@pytest.mark.parametrize(
    "quirks", [("dead-interface", "loopback-name"), ("dead-interface", "ipv6-only")]
)
def test_odd_networks(quirks: tuple[str, ...]) -> None:
    """A node list with gaps, uneven cyclic ranks, and names that lead nowhere near."""
    with cluster("--names", "n1,n2,n5,n7", *(f"--quirk={quirk}" for quirk in quirks)):
        folder = Login(new_folder())
        prepare(folder)
        srun = "srun --mpi=none -N3 -n5 --nodelist=n[2,5,7] -m cyclic --overcommit"
        found = places(run(folder, f"{srun} {shim('gloo')}"))
        check(found, 5)
        assert [found[rank]["host"] for rank in range(3)] == ["n2", "n5", "n7"]
        assert {place["interface"] for place in found.values()} == {"eth0"}
