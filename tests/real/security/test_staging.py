"""The job's folder on a node, in a /tmp where another user waits for its name."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.real.conftest import Login, on_cluster
from tests.real.test_proof import Place, place, small  # noqa: F401 (fixtures)

from ..conftest import ended
from .conftest import Job, Stranger, start

NODES = ("n1", "n2")
TRAINER = "import time; print('TRAINED', flush=True); time.sleep(3)"
# Looks for names of a job's folder in /tmp and in the arguments of all processes, and tries to make
# the folder, or to change what is there.
WATCH = r"""
import os, re, sys
own = re.compile(rb"/tmp/(runner-1000-%s\.[0-9a-f]{32})" % sys.argv[1].encode())
listed = re.compile(rb"runner-1000-%s\.[0-9a-f]{32}" % sys.argv[1].encode())
seen = set()

def names():
    for name in os.listdir(b"/tmp"):
        if listed.fullmatch(name):
            yield name
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{process}/cmdline", "rb") as file:
                yield from own.findall(file.read())
        except OSError:
            pass

def tries(folder):
    yield "mkdir", lambda: (os.mkdir(folder, 0o777), os.chmod(folder, 0o777))
    yield "rename", lambda: os.rename(folder, folder + b".old")
    yield "list", lambda: os.listdir(folder)
    yield "write", lambda: open(folder + b"/.image.sif", "wb")
    yield "link", lambda: os.symlink("/etc", folder + b"/.image")

while not os.path.exists("stop"):
    for name in set(names()) - seen:
        seen.add(name)
        print("SAW", name.decode(), flush=True)
        for how, attempt in tries(b"/tmp/" + name):
            try:
                attempt()
                print("DONE", how, flush=True)
            except OSError:
                pass
"""
# What an image of the other user's would do.
EVIL = "#!/bin/sh\ntouch /scratch/shared/evil-ran\n"


@dataclass(frozen=True)
class Guessed:
    """A job of ada's that waits, and the folder that it will have on each node."""

    job: Job
    folder: str


def held(login: Login, *words: str, env: dict[str, str] | None = None) -> Job:
    """Return a job that waits until it is released."""
    trainer = login.write("short.py", TRAINER)
    more = ("--nodes", "2", "--no-gate", "--sbatch-arg=--hold", *words, trainer)
    return start(login, *more, image=f"{login.folder}/a.sif", env=env)


def release(job: Job) -> int:
    """Let a job start; return its exit code."""
    job.login.sh(f"scontrol release {job.id}")
    return job.end()


def test_who_watches_for_the_name_comes_too_late(place: Place, bob: Stranger) -> None:  # noqa: F811
    login = place.login
    job = held(login, "--stage-image", "node-local")
    login.sh("mkdir -m 700 precious; touch precious/file")
    link = f"/tmp/runner-1000-1.{'0' * 32}"
    bob.write("watch.py", WATCH)
    for node in NODES:
        bob.sh(f"ln -s {login.folder}/precious {link}", node)
        bob.start(f"exec python3 watch.py {job.id} > watched-{node} 2>&1", node)
    assert release(job) == 0, job.log
    bob.sh("touch stop")
    assert job.log.count("TRAINED") == 2
    name = login.sh(f". {job.folder}/code/where.sh; echo $stage").strip()
    for node in NODES:
        assert bob.sh(f"cat watched-{node}") == f"SAW {name.rpartition('/')[2]}\n"
    assert login.sh("ls precious") == "file\n", "a link of bob's is no leftover of ada's"
    # Now he knows it.
    bob.sh(
        f"mkdir -m 777 {name}; cd {name}; printf '{EVIL}' > .image.sif; chmod 755 .image.sif", "n1"
    )
    done = on_cluster(["bash", f"{job.folder}/code/enter", "true"], node="n1")
    ended(done, 75, "what the job has staged is not on this node")


@pytest.fixture
def guessed(place: Place) -> Guessed:  # noqa: F811
    """A job whose name the other user has guessed, since it draws no random number."""
    login, digits = place.login, "5" * 32
    login.sh(f"mkdir bin; printf '#!/bin/sh\\necho {digits}\\n' > bin/od; chmod 755 bin/od")
    path = f"{login.folder}/bin:/opt/runner/bin:/usr/local/bin:/usr/bin:/bin"
    job = held(login, "--stage-image", "node-local", env={"PATH": path})
    return Guessed(job, f"/tmp/runner-1000-{job.id}.{digits}")


@pytest.mark.parametrize("made", ["mkdir -m 777 {folder}", "ln -s {precious} {folder}"])
def test_a_folder_that_another_user_made_first_ends_the_job(
    guessed: Guessed, bob: Stranger, made: str
) -> None:
    job, login = guessed.job, guessed.job.login
    precious = login.sh("mkdir -m 700 precious; cd precious; pwd").strip()
    bob.sh(made.format(folder=guessed.folder, precious=precious), "n2")
    assert release(job) == 92, job.log
    assert f"on n2: cannot create {guessed.folder}: File exists" in job.log
    assert "TRAINED" not in job.log
    assert login.sh("ls -A precious") == ""
    assert bob.run("ls", "-A", guessed.folder, node="n2").stdout == ""
    cause = login.why(job.id)
    assert (cause["id"], cause["host"]) == ("staging-failed", "n2"), cause


def test_a_folder_in_which_others_may_rename_is_not_used(place: Place, bob: Stranger) -> None:  # noqa: F811
    mount = "mkdir -p /mnt/open; mount -t tmpfs -o size=256M,mode={} none /mnt/open"
    try:
        for node, mode in zip(NODES, ("1777", "777")):
            asked = ["bash", "-c", mount.format(mode)]
            assert on_cluster(asked, node=node, user="root").returncode == 0
        job = held(place.login, "--stage-image", "node-local", env={"TMPDIR": "/mnt/open"})
        assert release(job) == 92, job.log
        assert "/mnt/open is writable by everybody and has no sticky bit" in job.log
        assert "image on n2: other users could replace what is staged" in job.log
        assert "image on n1: other users" not in job.log
        assert bob.sh("ls -A /mnt/open", "n2") == ""
    finally:
        for node in NODES:
            on_cluster(["umount", "/mnt/open"], node=node, user="root")
