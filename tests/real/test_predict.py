"""Inference: a checkpoint of torch_mnist predicts image files, a share of them on each node."""

from __future__ import annotations

import csv

import pytest

from .conftest import Done, Login, ended, succeeded

pytestmark = pytest.mark.unpacked
# Writes the digits of the test set, the label in each name.
WRITE = """
from pathlib import Path
from PIL import Image
from recipes.digits import load
data = load(None)
for number, (pixels, label) in enumerate(zip(data.x_test, data.y_test)):
    path = Path("digits", f"part-{number % 3}", f"{number:03d}-{label}.png")
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray((pixels * 255).astype("uint8")).save(path)
"""
KIT = ("--bind", "/opt/kit", "--env", "PYTHONPATH=/opt/kit")


def predict(login: Login, ranks: int, data: str, checkpoint: str) -> Done:
    """Predict with some ranks on the login node, into the folder `out`."""
    start = (
        "mpirun",
        "--oversubscribe",
        "-np",
        str(ranks),
        "python",
        "-m",
        "recipes.torch_predict",
    )
    words = ("--data", data, "--checkpoint", checkpoint)
    return login.run("apptainer", "exec", *KIT, login.image, *start, *words)


def rows(login: Login, folder: str) -> list[list[str]]:
    """Return what predictions.csv has below its first line."""
    first, *others = csv.reader(login.sh(f"cat {folder}/predictions.csv").splitlines())
    assert first == ["file", "label", "probability"]
    return others


def test_two_nodes_predict_each_file_once(login: Login) -> None:
    script = login.write("write.py", WRITE)
    succeeded(login.run("apptainer", "exec", login.image, "python", script))
    succeeded(login.launch("--nodes", "2", "--wait", "torch_mnist", "--", "--epochs", "4"))
    (run,) = login.runs()
    accuracy = login.told("result")["accuracy"]
    words = ("--nodes", "2", "--data", "digits", "--follow", "--all", "torch_predict")
    done = succeeded(login.launch(*words, "--", "--checkpoint", f"runs/{run}"))
    assert "runner: one world of 2 ranks (Horovod" in done.stdout
    found = rows(login, "runs/torch_predict-*")
    assert [file for file, *_ in found] == login.sh("cd digits; ls -d */*").split()
    right = sum(file.endswith(f"-{label}.png") for file, label, _ in found)
    assert right / len(found) == pytest.approx(accuracy, abs=0.004)  # pixels are rounded to bytes
    assert accuracy > 0.9
    result = login.told("result")
    assert (result["files"], result["world_size"], len(set(result["hosts"]))) == (359, 2, 2)

    # One rank predicts the same, from the checkpoint's own path.
    (checkpoint,) = login.sh(f"ls runs/{run}/checkpoints/*.ckpt | tail -n 1").split()
    succeeded(predict(login, 1, "digits", checkpoint))
    assert [row[:2] for row in rows(login, "out")] == [row[:2] for row in found]

    # What cannot be used is refused with one message.
    login.sh(f"mkdir other empty; cp {checkpoint} {checkpoint[:-4]}json other")
    login.sh("sed -i s/torch_mnist/tf_mnist/ other/*.json")
    login.sh("cp -r digits strange; cp write.py strange/a.png")
    for ranks, data, weights, message in (
        (1, "digits", "empty", "--checkpoint empty: there is no checkpoint in empty"),
        (1, "digits", "other", "is a checkpoint of tf_mnist, not of torch_mnist"),
        (1, "empty", checkpoint, "no images in empty"),
        (2, "strange", checkpoint, "cannot read the image strange/a.png"),
    ):
        refused = ended(predict(login, ranks, data, weights), 2, message)
        assert refused.stderr.count("error: ") == 1
