"""Another user on a job's nodes talks to all of its sockets: it trains on, and ends well."""

from __future__ import annotations

import pytest

from tests.real.conftest import Login
from tests.real.places import BARE_TRAINER

from .conftest import Stranger, start

TRAINER = """
import os, time
print("READY", flush=True)
while not os.path.exists("go"):
    time.sleep(0.1)
"""
# Half a request, and more of them than are dropped, to each port on which ada (uid 1000) listens;
# and a flood of what is no report to each abstract socket of a shim.
ATTACK = """
import socket, time
HALVES = (b"", b"GET /a", b"PUT /a HTTP/1.1\\r\\nContent-Length: 9\\r\\n\\r\\n", b"x" * 47)
ODD = [b"5", '["é","a","b"]'.encode(), b"[" * 4000, bytes(range(256)), b"formed torch.distributed"]


def ports():
    for line in list(open("/proc/net/tcp"))[1:]:
        fields = line.split()
        if fields[3] == "0A" and fields[7] == "1000":
            address, port = fields[1].split(":")
            yield socket.inet_ntoa(bytes.fromhex(address)[::-1]), int(port, 16)


def half_requests():
    for place in places:
        for half in HALVES:
            for _ in range(40):
                try:
                    sock = socket.create_connection(place, timeout=1)
                    sock.sendall(half)
                    held.append(sock)
                except OSError:
                    break


names = {line.split("@", 1)[1].strip() for line in open("/proc/net/unix") if "@runner-" in line}
places, held = list(ports()), []
half_requests()
print("ATTACK", len(names), len(places), len(held), flush=True)
while True:
    began, sock = time.time(), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    while time.time() < began + 2:
        for name in names:
            for data in ODD:
                try:
                    sock.sendto(data, chr(0) + name)
                except OSError:
                    pass
    del held[:200]
    half_requests()
"""


@pytest.mark.parametrize("words", [(), ("--apptainer-arg=--fakeroot",)])
def test_datagrams_and_half_requests_do_not_reach_a_job(
    login: Login, bob: Stranger, words: tuple[str, ...]
) -> None:
    trainer = login.write("train.py", TRAINER + BARE_TRAINER)
    job = start(login, "--nodes", "2", "--controller", "gloo", *words, trainer)
    for node in ("n1", "n2"):
        job.wait_for(f"{int(node[1]) - 1}@{node} | READY")
    attack = bob.write("attack.py", ATTACK)
    for node in ("n1", "n2"):
        bob.start(f"exec timeout 120 python3 {attack} > {node} 2>&1", node)
        done = bob.sh(f"for i in $(seq 200); do grep -s ATTACK {node} && exit; sleep 0.1; done; "
                      f"cat {node}; exit 1")  # fmt: skip
        sockets, ports, held = map(int, done.split()[1:])
        assert sockets >= 1
        assert ports >= (2 if node == "n1" else 1)  # rank 0's hub, and each rank's proxy
        assert held >= 100
    login.sh("touch go")
    assert job.end() == 0, job.log
    assert job.log.count('PLACE {"rank"') == 2
    assert "one world of 2 ranks (Horovod" in job.log
