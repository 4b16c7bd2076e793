"""The value of --env is on no command line of any node, however the ranks are started."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.real.conftest import IMAGE, Login, on_cluster

from ..conftest import succeeded
from .conftest import NODES

# Looks at all command lines until it is told to stop; what it looks for is not among its own.
SCAN = """
import glob, json, os, sys
folder = sys.argv[1]
marks = {name: open(f"{folder}/{name}").read().strip() for name in ("secret", "decoy")}
seen = {name: set() for name in marks}
while not os.path.exists(f"{folder}/stop"):
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            line = open(path, errors="replace").read()
        except OSError:
            continue
        for name, mark in marks.items():
            if mark in line:
                seen[name].add(line)
with open(f"{folder}/seen.{os.uname().nodename}.part", "w") as file:
    json.dump({name: sorted(lines) for name, lines in seen.items()}, file)
os.rename(file.name, file.name[:-5])
"""
RANK = """
import os, sys, time
here = os.path.dirname(os.path.abspath(__file__))
right = os.environ.get("TOKEN") == open(os.path.join(here, "value")).read()
print("TOKEN", "kept" if right else "lost", flush=True)
time.sleep(3)
"""
# A shell reads the value from a file, as a user's does; no program has it as an argument.
LOGIN = 'TOKEN=$(cat value; echo x); export TOKEN="${TOKEN%x}"; "$@"'
TWO = ("--image", IMAGE, "--nodes", "2", "--env", "TOKEN")
GLOO, MPI = ("--controller", "gloo", "--no-gate"), ("--controller", "mpi", "--no-gate")
WAYS = {
    "srun, staged": ("launch", *TWO, *GLOO, "--stage-image", "mount"),
    "torchrun": ("launch", *TWO, "--no-gate", "--launcher", "torchrun"),
    "horovodrun, gloo": ("launch", *TWO, *GLOO, "--launcher", "horovodrun"),
    "horovodrun, mpi": ("launch", *TWO, *MPI, "--launcher", "horovodrun"),
    "mpirun": ("launch", *TWO, *GLOO, "--launcher", "mpirun"),
}


@contextmanager
def scanned(login: Login) -> Iterator[dict[str, dict[str, list[str]]]]:
    """Scan the command lines on all nodes; what was seen is there at the end, by node."""
    value = f's3cr,et "{uuid.uuid4().hex}" it\'s\n$(x)'
    for name, text in (("value", value), ("secret", value.split('"')[1])):
        login.write(name, text)
    login.sh("truncate -s -1 value")  # the end of the line is not in it
    login.write("decoy", uuid.uuid4().hex)
    scan = login.write("scan.py", SCAN)
    start = f"setsid python3 {scan} {login.folder} < /dev/null > /dev/null 2>&1 &"
    for node in NODES:
        on_cluster(["bash", "-c", start], user="root", node=node)
    seen: dict[str, dict[str, list[str]]] = {}
    try:
        yield seen
    finally:
        login.sh("touch stop")
    for node in NODES:
        login.sh(f"timeout 20 sh -c 'until [ -e seen.{node} ]; do sleep 0.1; done'")
        seen[node] = json.loads(login.sh(f"cat seen.{node}"))


def check(seen: dict[str, dict[str, list[str]]]) -> None:
    """See that the decoy, an argument of the trainer, was seen, and the secret never."""
    assert seen["n1"]["decoy"]
    assert seen["n2"]["decoy"]
    assert {node: found["secret"] for node, found in seen.items()} == {node: [] for node in NODES}


@pytest.mark.parametrize("way", WAYS)
def test_no_command_line_has_the_value(login: Login, way: str) -> None:
    rank = login.write("rank.py", RANK)
    with scanned(login) as seen:
        decoy = login.sh("cat decoy").strip()
        words = ("runner", *WAYS[way], "--follow", "--all", rank, "--", decoy)
        done = succeeded(login.run("bash", "-c", LOGIN, "bash", *words))
        assert done.stdout.count("TOKEN kept") == 2
    check(seen)


def test_nor_has_a_shell_with_ssh_nor_exec(login: Login) -> None:
    rank = login.write("rank.py", RANK)
    login.write("both.sh", "python3 rank.py $1; ssh n2 python3 $PWD/rank.py $1")
    with scanned(login) as seen:
        decoy = login.sh("cat decoy").strip()
        words = ("runner", "shell", *TWO, "--", "bash", "both.sh", decoy)
        done = login.run("bash", "-c", LOGIN, "bash", *words)
        assert done.stdout.count("TOKEN kept") == 2, done.stdout + done.stderr
        launch = ("runner", "launch", *TWO, *GLOO, "--parsable", "sleep", "--", "60")
        job = login.run("bash", "-c", LOGIN, "bash", *launch).stdout.strip()
        inside = ("exec", "--all", job, "--", "python3", rank, decoy)
        runs = f"squeue --noheader --format=%t -j {job} | grep -qx R"
        login.sh(f"timeout 60 sh -c 'until {runs}; do sleep 0.2; done'")
        done = login.runner(*inside)
        assert done.stdout.count("TOKEN kept") == 2, done.stdout + done.stderr
        login.runner("cancel", job)
    check(seen)
