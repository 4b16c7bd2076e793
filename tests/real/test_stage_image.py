"""The image on the nodes' own disks: sent, unpacked, shared by ranks, entered, and gone after."""

from __future__ import annotations

import re
import time
from pathlib import Path

from runners.injob.stage.node import BLOCK, SPARE_BYTES

from .conftest import IMAGE, Login, ended, on_cluster, succeeded
from .test_data import left_on_nodes

# Says which image it is in; when all four are there it fails, or waits for its end.
LOOKER = """
import os, signal, sys, time

def save(*_):
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # a second one in the middle of an import fails
    import wave  # from the image, for the first time
    print("SAVES", flush=True)

signal.signal(signal.SIGUSR1, save)
print("SEES", os.environ["APPTAINER_CONTAINER"], flush=True)
here = os.path.join(os.environ["OUTPUT_DIR"], "seen-" + os.environ["SLURM_PROCID"])
open(here, "w").close()
while sum(name.startswith("seen-") for name in os.listdir(os.path.dirname(here))) < 4:
    time.sleep(0.1)
time.sleep(0.5)
if "fail" in sys.argv:
    sys.exit(7)
while True:
    time.sleep(1)
"""
SEES = re.compile(r"(\d)@(n\d) \| SEES (.*)")
NODES = ("n1", "n2")
FOUR = ("-N", "2", "--ntasks-per-node", "2", "--controller", "gloo")


def seen(text: str) -> dict[str, tuple[str, str]]:
    """Return the node of each rank, and the image that it is in."""
    return {rank: (host, image) for rank, host, image in SEES.findall(text)}


def serving(node: str) -> list[str]:
    """Return what shows files of images to ranks of a node, one process each."""
    return on_cluster(["pgrep", "-a", "squashfuse"], node=node).stdout.splitlines()


def leftovers() -> str:
    """Return what a job has left on the nodes: files, and processes that serve an image."""
    mounts = [on_cluster(["grep", "squashfuse", "/proc/mounts"], node=n).stdout for n in NODES]
    return "".join([left_on_nodes(), *mounts, *serving("n1"), *serving("n2")])


def test_unpacked_once_for_the_ranks_of_a_node_and_gone_after_a_failure(login: Login) -> None:
    login.write("looker.py", LOOKER)
    done = login.launch(
        *FOUR, "--stage-image", "unpack", "--follow", "-v", "looker.py", "--", "fail"
    )
    ended(done, 7, "image read from: each node's own disk, unpacked (as requested)")
    said = login.runner("logs", "--all").stdout
    found = seen(said)
    assert sorted(found) == ["0", "1", "2", "3"], said
    sent = f"sent, {int(login.sh(f'stat --format %s {IMAGE}')) / 1e6:.1f} MB"
    for node in ("n1", "n2"):
        there = {image for host, image in found.values() if host == node}
        (image,) = there
        assert re.fullmatch(r"/tmp/runner-1000-\d+\.[0-9a-f]{32}/\.image", image), (
            "one for both ranks"
        )
        assert said.count(f"image on {node}: {sent}") == 1
        unpacked = rf"image on {node}: unpacked, 2\.\d GB in \d{{5}} files, [\d.]+ s"
        assert len(re.findall(unpacked, said)) == 1
    assert leftovers() == ""


def test_sent_entered_by_a_command_and_gone_after_a_cancel(login: Login) -> None:
    login.write("looker.py", LOOKER)
    words = (*FOUR, "--stage-image", "node-local", "--parsable", "looker.py")
    job = running(login, words)
    step = f"srun --overlap --jobid {job} -N 1 -n 1 --mpi=none bash runs/looker-1/code/enter"
    inside = login.sh(f"{step} sh -c 'echo $APPTAINER_CONTAINER'").strip()
    assert inside.startswith(f"/tmp/runner-1000-{job}."), inside
    assert inside.endswith("/.image.sif")
    assert f"runner-1000-{job}." in left_on_nodes()
    cancelled(login, job)


def running(login: Login, words: tuple[str, ...]) -> str:
    """Start looker.py; return the job once its four ranks are in the image."""
    job = succeeded(login.launch(*words)).stdout.strip()
    deadline = time.monotonic() + 240
    while len(seen(login.sh("cat runs/looker-1/logs/job.log 2>/dev/null || true"))) < 4:
        assert time.monotonic() < deadline, login.sh("cat runs/looker-1/logs/job.log")
        time.sleep(0.2)
    return job


def cancelled(login: Login, job: str) -> None:
    """Cancel it; nothing of it stays on the nodes."""
    succeeded(login.runner("cancel", job))
    assert login.runner("wait", job).returncode == 86
    deadline = time.monotonic() + 60
    while leftovers() and time.monotonic() < deadline:
        time.sleep(0.2)
    assert leftovers() == ""


def test_one_mount_for_the_ranks_of_a_node_outlives_a_warning(login: Login) -> None:
    """The warning goes to all processes of each step, as this cluster has no control groups.

    So the plan chooses the mount itself.
    """
    login.write("looker.py", LOOKER)
    words = (*FOUR, "--signal", "USR1@60", "--parsable", "looker.py")
    job = running(login, words)
    for node in NODES:
        (one,) = serving(node)
        assert f"/tmp/runner-1000-{job}." in one
    said = login.sh("cat runs/looker-1/logs/job.log")
    assert len(re.findall(r"image on n\d: mounted once for its ranks, [\d.]+ s", said)) == 2, said
    assert {Path(image).name for _, image in seen(said).values()} == {".image"}
    login.sh(f"scancel --signal=USR1 {job}")
    deadline = time.monotonic() + 60
    saved = set[str]()
    while len(saved) < 4:
        saved = set(re.findall(r"(\d)@n\d \| SAVES", login.sh("cat runs/looker-1/logs/job.log")))
        assert time.monotonic() < deadline, login.sh("cat runs/looker-1/logs/job.log")
        time.sleep(0.2)
    cancelled(login, job)


def test_a_node_that_cannot_mount_says_so_and_runs_the_file(login: Login) -> None:
    login.write("looker.py", LOOKER)
    hide = ["mount", "--bind", "/dev/null", "/usr/bin/squashfuse_ll"]
    try:
        assert on_cluster(hide, node="n2", user="root").returncode == 0
        words = (*FOUR, "--stage-image", "mount", "--follow", "looker.py", "--", "fail")
        done = login.launch(*words)
        said = login.runner("logs", "--all").stdout
        assert done.returncode == 7, said
        assert len(seen(said)) == 4, said
        assert "image on n1: mounted once" in said
        why = "not mounted, each rank mounts it itself: there is no squashfuse_ll here"
        assert f"image on n2: {why}" in said
    finally:
        on_cluster(["umount", "/usr/bin/squashfuse_ll"], node="n2", user="root")
    assert leftovers() == ""


def test_no_room_on_one_node_is_said_before_the_image_is_sent(login: Login) -> None:
    tiny = "mkdir -p /mnt/tiny; mount -t tmpfs -o size={},mode=1777 none /mnt/tiny"
    nodes = {"n1": "2G", "n2": "64M"}
    login.write("looker.py", LOOKER)
    try:
        for node, size in nodes.items():
            succeeded(on_cluster(["bash", "-c", tiny.format(size)], node=node, user="root"))
        words = (*FOUR, "--stage-image", "unpack", "--follow", "looker.py")
        done = ended(login.launch(*words, env={"TMPDIR": "/mnt/tiny"}), 92)
        said = done.stdout + done.stderr
        blocks = -(-int(login.sh(f"stat --format %s {IMAGE}")) // BLOCK)
        needed = f"{(blocks * BLOCK + SPARE_BYTES) / 1e6:.1f} MB needed"
        assert f"image on n2: no space in /mnt/tiny: {needed}" in said, said
        assert "try: --stage-image none" in said
        cause = login.why()
        assert (cause["id"], cause["host"]) == ("staging-failed", "n2"), cause
        assert "SEES" not in done.stdout
        for node in nodes:
            assert on_cluster(["ls", "/mnt/tiny"], node=node).stdout == ""
    finally:
        for node in nodes:
            on_cluster(["umount", "/mnt/tiny"], node=node, user="root")


def test_where_no_program_can_run_a_file_can(login: Login) -> None:
    """What is mounted noexec holds an image, but not the image's programs."""
    mount = "mkdir -p /mnt/mute; mount -t tmpfs -o noexec,size=2G,mode=1777 none /mnt/mute"
    login.write("short.py", "print('TRAINED', flush=True)")
    words = ("-N", "1", "--nodelist", "n1", "--controller", "gloo", "--follow", "short.py")
    try:
        succeeded(on_cluster(["bash", "-c", mount], node="n1", user="root"))
        for asked, code in (("unpack", 92), ("node-local", 0)):
            done = login.launch("--stage-image", asked, *words, env={"TMPDIR": "/mnt/mute"})
            said = done.stdout + done.stderr
            assert done.returncode == code, said
            refused = "no program can run in /mnt/mute, which is mounted noexec" in said
            assert (refused, "TRAINED" in said) == (code == 92, code == 0), said
    finally:
        on_cluster(["umount", "/mnt/mute"], node="n1", user="root")


def test_auto_says_why(login: Login) -> None:
    """The cluster's scratch is one disk: here there is nothing to be gained."""
    done = succeeded(login.launch("--stage-image", "auto", "-N", "2", "--dry-run", "torch_mnist"))
    assert re.search(r"# stage-image: none \(it is on \w+, not known as", done.stdout)
