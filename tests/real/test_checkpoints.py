"""Checkpoints that are cut, foreign or cannot be written, with real ranks in the image."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator

import pytest

from .conftest import UNPACKED, Done, Login, new_folder, on_cluster, succeeded

OPTIONS = ["--epochs", "3", "--batch-size", "32", "--warmup-epochs", "0", "--dropout", "0"]


def ranks(login: Login, count: int, recipe: str, *words: str, disk: str = "") -> Done:
    """Train as `count` ranks in the image.

    With `disk`, its size, the folder disk is a file system, whose checkpoints are shown at the end.
    """
    mpirun = ["mpirun", "--oversubscribe", "-np", str(count), "python", "-m", f"recipes.{recipe}"]
    argv = ["apptainer", "exec", UNPACKED, *mpirun, *OPTIONS, *words]
    if disk:
        look = (
            "cd disk/run/checkpoints; for f in *.json; do sha256sum ${f%.json}.ckpt; cat $f; done"
        )
        small = (
            f"mount -t tmpfs -o size={disk} tmpfs disk; {shlex.join(argv)}; echo ended $?; {look}"
        )
        argv = ["unshare", "--map-root-user", "--mount", "sh", "-c", small]
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return login.run(*argv, env={"OMP_NUM_THREADS": "1", **as_root})


def train(login: Login, count: int, recipe: str, *words: str) -> str:
    """Train to the end; return what was printed."""
    return succeeded(ranks(login, count, recipe, *words)).stdout


def told_once(done: Done, words: str) -> None:
    """Check that all ranks ended with one message, and it is no traceback."""
    text = done.stdout + done.stderr
    assert done.returncode not in (0, 91), text
    assert text.count(words) == 1, text
    assert "Traceback" not in text


def names(login: Login, folder: str) -> list[str]:
    """Return the files of a run's checkpoints."""
    return login.sh(f"ls -A {folder}/checkpoints").split()


def checksum(login: Login, folder: str) -> str:
    """Return that of the newest checkpoint."""
    newest = login.sh(f"cat $(ls {folder}/checkpoints/step-*.json | tail -1)")
    return str(json.loads(newest)["sha256"])


@pytest.fixture(scope="module")
def whole() -> Iterator[str]:
    """The output of two ranks that trained to the end."""
    login = Login(new_folder())
    train(login, 2, "torch_mnist", "--base-lr", "0.02", "--output", "whole")
    yield f"{login.folder}/whole"
    on_cluster(["rm", "-rf", login.folder])


def test_a_cut_checkpoint_is_refused_by_name_and_a_foreign_one_by_all_ranks_at_once(
    login: Login, whole: str
) -> None:
    *_, before, last = sorted(name for name in names(login, whole) if name.endswith(".ckpt"))
    login.sh(f"cp -r {whole} cut; cd cut/checkpoints; truncate -s -1 {last}")
    again = ["--base-lr", "0.02", "--output", "cut", "--resume", "auto"]
    printed = train(login, 2, "torch_mnist", *again)
    assert f"checkpoints/{last} is truncated" in printed
    assert f"resumed at step {int(before[5:13])}, epoch 3" in printed
    assert checksum(login, "cut") == checksum(login, whole)
    done = ranks(login, 2, "tf_mnist", "--output", "other", "--resume", "cut")
    told_once(done, "none of the checkpoints in cut/checkpoints can be used")


def test_another_number_of_ranks_goes_on(login: Login, whole: str) -> None:
    """Of 2 ranks with 32 samples each a step is that of 1 with 64, but for the order of sums."""
    words = ["--output", "run", "--checkpoint-every", "20", "--keep", "1"]
    words += ["--max-steps", "30", "--batch-size", "64", "--base-lr", "0.04"]
    train(login, 1, "torch_mnist", *words)
    assert len(names(login, "run")) == 2
    words = ["--output", "run", "--resume", "auto", "--base-lr", "0.02"]
    printed = train(login, 2, "torch_mnist", *words)
    assert "resumed at step 30" in printed
    assert "1 ranks before, 2 now" in printed
    before, run = (json.loads(login.sh(f"cat {folder}/result.json")) for folder in (whole, "run"))
    assert run["world_size"] == 2
    assert run["loss"] == pytest.approx(before["loss"], rel=1e-3)


def test_a_full_disk_is_told_and_the_old_checkpoint_stays_whole(login: Login) -> None:
    login.sh("mkdir disk")
    options = ["--output", "disk/run", "--checkpoint-every", "10", "--keep", "9"]
    done = ranks(login, 2, "torch_mnist", *options, disk="1m")
    told, _, left = done.stdout.partition("ended ")
    assert "warning: no checkpoint of step 69: No space left on device" in told
    assert "Traceback" not in told + done.stderr
    real = re.findall(r"^([0-9a-f]{64})  step-", left, re.MULTILINE)
    assert real == re.findall(r'"sha256": "([0-9a-f]{64})"', left)
    assert real
    assert left.startswith("0\n")  # training went on


def test_an_output_folder_that_cannot_be_written(login: Login) -> None:
    login.sh("mkdir locked; chmod a-w locked")
    told_once(ranks(login, 2, "torch_mnist", "--output", "locked/run"), "locked/run")
