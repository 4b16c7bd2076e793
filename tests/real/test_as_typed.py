"""Launches as a new user types them: no trainer, no image, several mistakes at once."""

from __future__ import annotations

import json
import shlex

from containers import expected_labels, image_catalogue

from .conftest import IMAGE, Login, ended, succeeded

MEETS = """
import os
print("meets", os.environ["RANK"], os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"])
"""


def test_without_a_trainer_a_test_of_a_minute_ends_well(login: Login) -> None:
    done = succeeded(login.runner("launch", "--image", IMAGE, "--nodes", "2", "--wait"))
    first = done.stderr.splitlines()[0]
    about = "torch_mnist, a test of a minute; name another or a file"
    assert first == f"runner: no trainer given: {about}"
    result = json.loads(succeeded(login.runner("result", "--json")).stdout)
    assert (result["trainer"], result["world_size"]) == ("torch_mnist", 2)
    assert result["accuracy"] > 0.95
    again = succeeded(login.runner("status", "--json")).stdout
    assert json.loads(again)["state"] == "COMPLETED"


def test_all_that_is_wrong_is_told_at_once_with_one_line_that_works(login: Login) -> None:
    login.write("train.py", "print('hello')")
    words = ["--image", "horovod-cpu.sif", "-N", "99", "-p", "cpux", "-t", "1h", "trian.py"]
    done = ended(
        login.runner("launch", *words),
        2,
        "the trainer trian.py does not exist",
        "--time '1h' is not a time that Slurm reads",
        "the image horovod-cpu.sif does not exist",
        "did you mean horovod_cpu.sif",
        "there is no partition cpux",
        "partition cpu has 2 nodes, fewer than --nodes 99",
    )
    assert login.runs() == []
    (line, *_) = [line for line in done.stderr.splitlines() if line.startswith("  try: ")]
    _, *offered = shlex.split(line.partition("try: ")[2])
    shown = succeeded(login.runner(*offered, "--dry-run"))
    for option in ("--nodes=2", "--partition=cpu", "--time=01:00:00"):
        assert f"#SBATCH {option}\n" in shown.stdout


def test_an_image_that_is_not_built_is_planned_by_its_labels_to_be(login: Login) -> None:
    words = ("--image", "horovod_gpu13.sif", "--nodes", "2", "--no-nv", "torch_mnist")
    shown = succeeded(login.runner("launch", *words, "--dry-run"))
    assert "horovod_gpu13.sif does not exist yet" in shown.stderr
    assert "runner build gpu13" in shown.stderr
    succeeded(login.run("sbatch", "--test-only", login.write("job.sh", shown.stdout)))
    ended(login.runner("launch", *words), 2, "the image horovod_gpu13.sif does not exist")
    built = json.loads(succeeded(login.runner("inspect", "--json", IMAGE)).stdout)
    expected = expected_labels.of(image_catalogue.IMAGES["cpu"])
    labels = {name: fact["value"] for name, fact in built["facts"].items()}
    # The trainers of an image may be older than this checkout.
    compared = (expected.keys() & labels.keys()) - {"recipes"}
    assert len(compared) > 12
    assert {name: labels[name] for name in compared} == {name: expected[name] for name in compared}


def test_half_of_the_master_address_is_filled_in(login: Login) -> None:
    login.write("meets.py", MEETS)
    words = ("--nodes", "2", "--no-gate", "--follow", "--all")
    done = succeeded(login.launch(*words, "--env", "MASTER_PORT=29511", "meets.py"))
    met = [
        line.partition("meets ")[2].split() for line in done.stdout.splitlines() if "meets" in line
    ]
    assert sorted(rank for rank, *_ in met) == ["0", "1"]
    assert len({address for _, address, _ in met}) == 1
    assert {port for *_, port in met} == {"29511"}
    done = succeeded(login.launch(*words, "--env", "MASTER_ADDR=n1", "meets.py"))
    assert done.stdout.count(" n1 ") >= 2
