"""How the image reaches the nodes: what is chosen and why, the script's lines, what a node does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from runners import injob
from runners.contract.parts import STAGE
from runners.core.job_record import JobPaths
from runners.core.model import (
    DataAccess,
    Dataset,
    ImageAccess,
    ImageInfo,
    JobSpec,
    Resources,
    RuntimeName,
    SchedulerName,
)
from runners.core.plan import Plan
from runners.core.site import Partition, Site
from runners.core.trainer import Trainer
from runners.images import container_runtime
from runners.injob.stage import image, job_folder, node
from runners.injob.stage.node import NotStaged
from runners.script import render

from .. import sentences
from ..plans import planned
from ..programs import program

FACTS = {"horovod.controllers": "gloo", "recipes": "torch_mnist"}
FILE = ImageInfo(Path("/i/a.sif"), FACTS, size=10**9, offset=49152, filesystem="nfs4")
FOLDER = ImageInfo(Path("/i/tree"), FACTS)
SITE = Site((SchedulerName.SLURM,), ("none", "pmix"), RuntimeName.APPTAINER)
UNPACKS = replace(SITE, unpacks="this apptainer has neither a setuid part nor squashfuse")
FUSE = replace(SITE, fuse=True)
SMALL = replace(SITE, partitions=(Partition("p", nodes=500, default=True, disk_mb=100),))
NOBODY = 65534
SPEC = JobSpec(
    "t", FILE, Trainer("torch_mnist", "recipes.torch_mnist", None), Resources(), Path("/r")
)


def solved(
    asked: str, nodes: int = 2, image: ImageInfo = FILE, site: Site = SITE, **more: object
) -> Plan:
    spec = replace(
        SPEC,
        image=image,
        stage_image=None if asked == "auto" else ImageAccess(asked),
        resources=Resources(nodes=nodes),
    )
    return planned(spec, site, **more)


def said(made: Plan) -> str:
    """Return what the plan says of how the image is read."""
    return " ".join(f"{c.value}: {c.reason}" for c in made.choices if c.id == "stage-image")


@pytest.mark.parametrize(
    ("nodes", "image", "site", "form", "why"),
    [
        (
            17,
            FILE,
            SITE,
            "none",
            "17 nodes on nfs4: 332.6 MB each in place, 5.7 GB from the server",
        ),
        (18, FILE, SITE, "node-local", "30 s at 200 MB/s; copied once: 1.0 GB, about 28 s"),
        (18, replace(FILE, filesystem="lustre"), SITE, "none", "18 nodes on lustre"),
        (131, replace(FILE, filesystem="lustre"), SITE, "node-local", "131 nodes on lustre"),
        (400, replace(FILE, filesystem="ext4"), SITE, "none", "ext4, not known as a shared file"),
        (400, replace(FILE, filesystem=""), SITE, "none", "a file system of an unknown kind"),
        (400, FOLDER, SITE, "none", "tree is a folder; only a file can be copied"),
        (18, FILE, SMALL, "none", "1.0 GB is more than a node's disk"),
        (18, replace(FILE, size=10**11), SITE, "none", "100.0 GB is more than every node has room"),
        (2, FILE, UNPACKS, "unpack", "neither a setuid part nor squashfuse: each rank would"),
        (
            2,
            replace(FILE, size=10**10),
            UNPACKS,
            "none",
            "50.0 GB is more than every node has room",
        ),
        (2, replace(FILE, offset=0), UNPACKS, "none", "2 nodes on nfs4"),
        (2, FILE, FUSE, "none", "2 nodes on nfs4"),
    ],
)
def test_auto(nodes: int, image: ImageInfo, site: Site, form: str, why: str) -> None:
    made = solved("auto", nodes, image, site)
    assert (made.staging.image, made.staging.any) == (form, form != "none")
    assert why in said(made)


@pytest.mark.parametrize(
    ("nodes", "ranks", "image", "site", "form"),
    [
        (2, 7, FILE, FUSE, "mount"),
        (1, 4, replace(FILE, filesystem="ext4"), FUSE, "mount"),
        (2, 6, FILE, FUSE, "none"),
        (2, 8, FILE, SITE, "none"),  # root mounts it, or nobody knows
        (2, 8, replace(FILE, offset=0), FUSE, "none"),
        (2, 8, FOLDER, FUSE, "none"),
        (18, 72, FILE, FUSE, "node-local"),
    ],
)
def test_auto_shares_a_mount(
    nodes: int, ranks: int, image: ImageInfo, site: Site, form: str
) -> None:
    asked = Resources(nodes=nodes, ntasks=ranks)
    spec = replace(SPEC, image=image, stage_image=None, resources=asked)
    made = planned(spec, site)
    assert made.staging.image == form
    assert ("share the cache of one squashfuse" in said(made)) == (form == "mount")


def test_what_is_asked_is_done_or_refused() -> None:
    assert solved("node-local", 1).staging.image == "node-local"
    assert solved("unpack", 1).staging.image == "unpack"
    assert solved("mount", 1).staging.image == "mount"
    for asked, file, more in (
        ("node-local", FOLDER, {}),
        ("unpack", replace(FILE, offset=0), {}),
        ("mount", replace(FILE, offset=0), {}),
        ("mount", FILE, {"runtime": RuntimeName.PODMAN}),
        ("unpack", FILE, {"runtime": RuntimeName.NONE}),
        ("unpack", FILE, {"runtime": RuntimeName.SHIFTER}),
    ):
        refusal = solved(asked, 2, file, SITE, **more).refusals[0]
        told = sentences.told(refusal)
        assert told[:2] == ("stage-image-impossible", "--stage-image none")


def test_without_a_word_nothing_is_staged_and_where_it_would_pay_that_is_said() -> None:
    assert said(solved("none", 15)) == ""
    made = solved("none", 64)
    assert not made.staging.any
    assert said(made).startswith("none: --stage-image auto would stage it: 64 nodes on")


def text(made: Plan) -> str:
    assert made.refusals == ()
    return render.render(made, JobPaths(Path("/runs/t-1")), "/w")


def lines(made: Plan) -> list[str]:
    """Return the lines that bring the image to the nodes or use it, in their order."""
    used = re.compile(r'stage \w+ .*image|.*"\$stage"?/\.image')
    return list(filter(used.match, text(made).splitlines()))


def test_sent_checked_unpacked_in_this_order_and_run_from_there() -> None:
    made = replace(solved("unpack"), verified_digest="sha256:" + "ab" * 32)
    room, sent, copied, verified, unpacked, ranks = lines(made)
    assert room == "stage room .image.sif /i/a.sif"
    assert sent == 'sbcast --force /i/a.sif "$stage"/.image.sif'
    assert copied == "stage copy .image.sif /i/a.sif"
    assert verified == f"stage verify .image.sif {'ab' * 32}"
    assert unpacked == "stage unpack .image.sif 49152 .image"
    assert '"$stage/.image"' in ranks
    assert "sha256sum" not in text(made), "each node checks its own copy instead"
    assert "srun --mpi=none --kill-on-bad-exit=1 --wait=600 --overlap" in text(made)
    assert "# The image on each node's own disk" in text(made)


def test_mounted_by_what_holds_it_after_a_check_of_the_file() -> None:
    made = replace(solved("mount"), verified_digest="sha256:" + "ab" * 32)
    checked, held, waits, ranks = (
        next(line for line in text(made).splitlines() if words in line)
        for words in ("stat --", "> >(", "stage mounted", "apptainer exec")
    )
    stamp = '"$(cat "$run/code/image-stamp")"'
    assert checked.endswith(f""" '%s %.9Y %.9Z' /i/a.sif)" != {stamp} ] &&""")
    assert f'[ "$(sha256sum < /i/a.sif)" != "{"ab" * 32}  -" ]' in text(made)
    assert held.endswith(">(on_each_node hold image .image /i/a.sif 49152 apptainer)")
    assert waits == "stage mounted .image"
    assert '"$stage/.image"' in ranks
    assert "sbcast" not in text(made)
    assert "# The image mounted once on each node for all its ranks; `hold`" in text(made)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with a squashfuse_ll, which mounts nothing, and an apptainer, by a test's words."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (["echo fuse: device not found >&2; exit 1"], "fuse: device not found"),
        (["exit 1"], "squashfuse_ll ended"),
    ],
)
def test_a_node_that_cannot_mount_takes_the_file(
    tools: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], lines: list[str], why: str
) -> None:
    program(tools / "squashfuse_ll", *lines)
    image.mount(str(tmp_path), ".image", "/i/a.sif", "49152", "apptainer")
    assert os.readlink(tmp_path / ".image") == "/i/a.sif"
    said = capfd.readouterr().err.strip()
    assert said.endswith(f"not mounted, each rank mounts it itself: {why}")
    image.wait_for_mount(str(tmp_path), ".image")


@pytest.mark.parametrize("enters", [True, False])
def test_a_mount_is_taken_where_the_runtime_enters_it(
    tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, enters: bool
) -> None:
    """As a setuid Apptainer may not, whose root sees no other user's mounts."""
    program(tools / "squashfuse_ll", f'echo "$@" > {tmp_path}/asked', "exec sleep 20")
    program(tools / "apptainer", f"echo FATAL: permission denied; exit {int(not enters)}")
    program(tools / "fusermount3", f'echo "$@" > {tmp_path}/unmounted')
    asked, target = tmp_path / "asked", tmp_path / image.MOUNT
    monkeypatch.setattr(os.path, "ismount", lambda path: asked.exists())
    image.mount(str(tmp_path), ".image", "/i/a.sif", "49152", "apptainer")
    assert asked.read_text() == f"-f -o ro,auto_unmount,offset=49152 /i/a.sif {target}\n"
    assert os.readlink(tmp_path / ".image") == (str(target) if enters else "/i/a.sif")
    assert (tmp_path / "unmounted").exists() != enters
    image.unmount(str(tmp_path))
    assert (tmp_path / "unmounted").read_text() == f"-u -z {target}\n"


def test_what_was_never_mounted_is_not_waited_for(tmp_path: Path) -> None:
    with sentences.refuses(NotStaged):
        image.wait_for_mount(str(tmp_path / "gone"), ".image")


def test_with_data_and_without_unpacking() -> None:
    data = (Dataset("tokens", Path("/d/tokens")),)
    made = solved("node-local", 1, data=data, stage_data=DataAccess.COPIED)
    assert "# The image and the data on each node's own disk" in text(made)
    assert lines(made)[-1].split()[-2:] == ['"$stage/.image.sif"', "\\"]
    assert "sbcast" not in text(made), "one node reads it itself"
    not_staged = solved("node-local", 1, data=data)
    assert "stage copy tokens" not in text(not_staged)
    assert "--bind /d/tokens:/data/tokens:ro" in text(not_staged)


@pytest.mark.parametrize(
    ("answer", "squashfuse", "why"),
    [
        ("APPTAINER_SUID_INSTALL=0", False, "this {} has neither a setuid part nor squashfuse"),
        ("APPTAINER_SUID_INSTALL=0", True, "fuse"),
        ("APPTAINER_SUID_INSTALL=1", False, ""),
        ("SINGULARITY_SUID_INSTALL=0", False, "this {} has neither a setuid part nor squashfuse"),
        ("PACKAGE_NAME=other", False, ""),
    ],
)
def test_whether_the_runtime_mounts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, squashfuse: bool, why: str
) -> None:
    tools = tmp_path / "libexec" / "apptainer" / "bin"
    tools.mkdir(parents=True)
    runtime = tmp_path / "apptainer"
    runtime.write_text(f"#!/bin/sh\necho {answer}\necho LIBEXECDIR={tmp_path}/libexec\n")
    runtime.chmod(0o755)
    if squashfuse:
        (tools / "squashfuse_ll").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(tmp_path))
    fuse = why == "fuse"
    assert container_runtime.mounting(str(runtime)) == ("" if fuse else why.format(runtime), fuse)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The folder that a job has on its node, held."""
    folder = tmp_path / f"{job_folder.PREFIX}7.{'0' * 32}"
    holder = subprocess.Popen(
        [sys.executable, injob.HERE, STAGE, "hold", "image"], stdin=subprocess.PIPE
    )
    assert holder.stdin
    holder.stdin.write(f"{folder}\n".encode())
    holder.stdin.flush()
    job_folder.wait_for(str(folder))
    yield folder
    holder.communicate(timeout=20)


def helper(command: str, folder: Path, *words: str) -> tuple[int, str]:
    """Run the helper as a node does; return its exit code and what it said."""
    argv = [sys.executable, injob.HERE, STAGE, command, *words]
    done = subprocess.run(argv, input=f"{folder}\n", capture_output=True, text=True, timeout=20)
    return done.returncode, done.stderr


def test_another_file_than_the_allowed_one_is_not_run(folder: Path) -> None:
    (folder / ".image.sif").write_bytes(b"changed")
    code, words = helper("verify", folder, ".image.sif", "0" * 64)
    host = os.uname().nodename.partition(".")[0]
    assert code == 81
    assert words == f"runner: image on {host}: it is no longer the file that was launched\n"
    digest = "d67e1c2e3c9d1f2b8a7f"  # of nothing
    assert helper("verify", folder, ".image.sif", digest)[0] == 81
    whole = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    (folder / ".image.sif").write_bytes(b"")
    assert helper("verify", folder, ".image.sif", whole) == (0, "")


def test_no_room_names_the_option_of_the_image(tmp_path: Path) -> None:
    with pytest.raises(NotStaged, match="try: --stage-image none"):
        node.require_room(str(tmp_path / ".image"), [10**13])
    with pytest.raises(NotStaged, match="try: --stage-data none"):
        node.require_room(str(tmp_path / "image"), [10**13])


def test_without_unsquashfs_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(image, "ELSEWHERE", ())
    with sentences.refuses(NotStaged):
        image.safe_unsquashfs()


def test_a_long_listing_is_counted() -> None:
    listing = """drwxr-xr-x 0/0                48 2026-11-21 10:00 squashfs-root
-rw-r--r-- 0/0           1234567 2026-11-21 10:00 squashfs-root/a b
lrwxrwxrwx 1000/1000           7 2026-11-21 10:00 squashfs-root/bin -> usr/bin
crw-rw-rw- 0/0             1,  3 2026-11-21 10:00 squashfs-root/dev/null
-rwsr-xr-x 0/0                 5 2026-11-21 10:00 squashfs-root/su
Parallel unsquashfs: Using 2 processors"""
    assert image.sizes_listed(listing) == [0, 1234567, 0, 0, 5]


def test_folders_without_write_permission_are_removed(tmp_path: Path) -> None:
    """Root may write everywhere, so where this is root another user does it."""
    tree = tmp_path / "job" / ".image" / "usr" / "bin"
    tree.mkdir(parents=True)
    (tree / "file").touch()
    for folder in (tree, tree.parent, tree.parent.parent):
        folder.chmod(0o555)
    if os.getuid() == 0:
        for path in (tmp_path, *tmp_path.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
    child = os.fork()
    if child == 0:
        os.chdir(tmp_path)
        if os.getuid() == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        job_folder._remove("job")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert not (tmp_path / "job").exists()
