"""The port that is held for the trainer's server: free for it, and no stranger's."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import runners.injob.rank
from runners.contract.enums import ProcessGroup
from runners.contract.failure_kinds import FailureKind
from runners.injob.rank import network, reports
from runners.injob.rank.reports import ReportState
from tests import ras_server

from . import shim

RANK = Path(runners.injob.rank.__file__).parent
# proc(5), /proc/net/tcp: a listener, and a connection behind all listeners
TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:{port:04X} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000 {uid:5d}  0 1
   1: 0100007F:{port:04X} 0100007F:0016 01 00000000:00000000 00:00000000 00000000 99999  0 2
"""


def server(port: int, address: str = "") -> socket.socket:
    """Listen as PyTorch's store and gRPC do."""
    sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((address, port))
    sock.listen()
    return sock


@pytest.mark.parametrize("address", ["", "127.0.0.1", "::1"])
def test_the_trainers_own_server_may_listen_there(address: str) -> None:
    held = network.hold_port()
    with server(held.getsockname()[1], address):
        assert network.foreign_listener(held) is None


@pytest.mark.parametrize(
    ("other", "state", "taken"), [(0, "0A", False), (1, "0A", True), (1, "01", False)]
)
def test_who_listens_is_read_from_the_kernels_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: int, state: str, taken: bool
) -> None:
    held, table = network.hold_port(), tmp_path / "tcp6"
    port = held.getsockname()[1]
    table.write_text(TABLE.format(port=port, state=state, uid=os.geteuid() + other))
    monkeypatch.setattr(network, "TABLES", (str(tmp_path / "no-ipv6"), str(table)))
    problem = network.foreign_listener(held)
    assert (problem is not None) == taken
    if problem:
        assert (problem.kind, problem.fields) == (FailureKind.PORT_TAKEN, {"port": port})
        assert f"another user of the node listens on port {port}" in problem.text


def test_a_port_of_a_stranger_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def others(port: int) -> set[int]:
        asked.append(port)
        return {os.geteuid() + 1} if len(asked) < 3 else set()

    monkeypatch.setattr(network, "listeners", others)
    held = network.hold_port()
    assert held.getsockname()[1] == asked[2]


def test_once_a_world_is_formed_nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trainer's server listens by then, or none will: no reason for strangers to end a job."""
    inbox = reports.Inbox()
    watch = network.PortWatch(0, network.hold_port(), inbox)
    assert watch.needed
    reports.tell(inbox.name, inbox.token, ProcessGroup.TORCH, ReportState.FORMED)
    inbox.read()
    monkeypatch.setattr(network, "listeners", lambda port: {os.geteuid() + 1})
    assert not watch.needed
    assert watch.look() is None


def test_each_rank_has_a_port_for_nccls_ras_that_its_processes_share() -> None:
    one: dict[str, str] = {}
    other: dict[str, str] = {}
    with network.hold_for_ras(one), network.hold_for_ras(other):
        assert one != other
        for environment in (one, one, other):  # workers of one agent have its environment
            with ras_server.listen(address := environment["NCCL_RAS_ADDR"]):
                assert network.listeners(int(address.rpartition(":")[2])) == {os.geteuid()}


def test_who_does_not_share_a_port_for_nccls_ras_does_not_get_it() -> None:
    environment: dict[str, str] = {}
    with network.hold_for_ras(environment) as held, pytest.raises(OSError, match="in use"):
        server(held.getsockname()[1], "127.0.0.1")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_another_user_does_not_get_a_port_for_nccls_ras() -> None:
    environment: dict[str, str] = {}
    with network.hold_for_ras(environment):
        code = (
            "import os, sys; from tests import ras_server; os.setuid(65534)\n"
            "ras_server.listen(sys.argv[1])"
        )
        argv = [sys.executable, "-c", code, environment["NCCL_RAS_ADDR"]]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert "Address already in use" in done.stderr


def test_the_users_own_address_of_nccls_ras_stays() -> None:
    environment = {"NCCL_RAS_ADDR": "localhost:5000"}
    network.hold_for_ras(environment).close()
    assert environment == {"NCCL_RAS_ADDR": "localhost:5000"}


# Another user's process takes the port of rank 0, then {then}.
TRAINER = """
import os, socket, sys, time
if os.environ["RANK"] == "0" and os.fork() == 0:
    os.setuid(65534)
    stranger = socket.socket()
    stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    stranger.bind(("", int(os.environ["MASTER_PORT"])))
    stranger.listen()
    time.sleep(20)
    os._exit(0)
{then}
"""
WAIT = "time.sleep(20)"
# Rank 0 alone: where the other one is the first to fail, rank 0 has only ended with it.
FAIL = (
    "time.sleep(20 * int(os.environ['RANK']) or 0.5); raise OSError(98, 'Address already in use')"
)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
@pytest.mark.parametrize("then", [WAIT, FAIL])
def test_a_stranger_on_the_port_ends_the_job_with_that_cause(tmp_path: Path, then: str) -> None:
    (tmp_path / "train.py").write_text(TRAINER.format(then=then))
    began = time.monotonic()
    code, out = shim.run(tmp_path, *shim.TWO)
    assert code != 0
    assert time.monotonic() - began < 15
    record = json.loads((tmp_path / "failures" / "rank-0.json").read_text())
    assert record["kind"] == FailureKind.PORT_TAKEN, out
    assert "another user of the node listens on port" in out
