"""Scripts that do what those of the tutorials do, with their imports and calls, run as they are."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

from .conftest import UNPACKED, Done, Login, succeeded

pytestmark = pytest.mark.unpacked

SCRIPTS = Path(__file__).parent / "tutorials"
# The four files of MNIST, of 64 and 16 pictures of noise, where torchvision looks for them.
WRITE_MNIST = """
import pathlib, random
draw, folder = random.Random(1), pathlib.Path("data/MNIST/raw")
folder.mkdir(parents=True)
for part, count in (("train", 64), ("t10k", 16)):
    size = count.to_bytes(4, "big")
    pictures = bytes([0, 0, 8, 3]) + size + bytes([0, 0, 0, 28] * 2) + draw.randbytes(count * 784)
    labels = bytes([0, 0, 8, 1]) + size + bytes(draw.randrange(10) for _ in range(count))
    (folder / f"{part}-images-idx3-ubyte").write_bytes(pictures)
    (folder / f"{part}-labels-idx1-ubyte").write_bytes(labels)
"""
# Two kinds of pictures, as folders of training_set and test_set.
DRAW_PICTURES = """
import os, random
from PIL import Image
for part, count in (("training_set", 8), ("test_set", 2)):
    for kind, shade in (("cats", 64), ("dogs", 192)):
        os.makedirs(f"pets/{part}/{kind}")
        for number in range(count):
            color = tuple(random.randrange(shade - 32, shade + 32) for _ in range(3))
            Image.new("RGB", (48, 40), color).save(f"pets/{part}/{kind}/{kind}.{number}.jpg")
"""
# 64 and 16 reviews as numbers of words, where `runner data fetch imdb` puts Keras's file.
WRITE_REVIEWS = """
import os
import numpy as np
draw, arrays = np.random.default_rng(1), {}
for part, count in (("train", 64), ("test", 16)):
    words = np.empty(count, object)
    words[:] = [list(map(int, draw.integers(1, 2000, 5 + k))) for k in range(count)]
    arrays.update({f"x_{part}": words, f"y_{part}": draw.integers(0, 2, count)})
os.makedirs("keras/datasets")
np.savez("keras/datasets/imdb.npz", **arrays)
"""
# Keras compares the file with the checksum of the real one.
UNCOMPARED = """
from keras.src.datasets import imdb
get_file = imdb.get_file
imdb.get_file = lambda fname, origin, file_hash: get_file(fname, origin=origin)
hvd.init()
"""
OURS = """
import horovod.torch as hvd
import lightning.pytorch as pl
from recipes import distributed
from recipes.lightning_mnist import HorovodStrategy
"""


@pytest.fixture
def place(login: Login) -> Login:
    """A folder with the scripts."""
    login.write_all(SCRIPTS.glob("*.py"))
    return login


def followed(place: Login, *words: str) -> Done:
    return place.launch("--nodes", "2", "--follow", "--all", *words)


def test_pytorch_with_torchvision(place: Login) -> None:
    place.write("mnist.py", WRITE_MNIST)
    place.sh("python3 mnist.py")
    done = succeeded(followed(place, "pytorch_horovod.py", "--", "--data-dir", "data"))
    assert "trained by 2" in done.stdout
    assert "events.out" in place.sh("ls runs/*")


def test_keras_2_wants_a_variable_and_is_told_so(place: Login) -> None:
    refused = followed(place, "keras2_horovod.py")
    assert refused.returncode not in (0, 82), refused.stdout
    said = place.why()
    assert said["id"] == "keras-2"
    assert "written for Keras 2" in said["what"]
    assert "--env TF_USE_LEGACY_KERAS=1" in said["remedies"][0]["text"]
    done = succeeded(followed(place, "--env", "TF_USE_LEGACY_KERAS=1", "keras2_horovod.py"))
    assert "trained by 2" in done.stdout
    assert "checkpoint-2.h5" in place.sh("ls runs/*")


def test_import_keras(place: Login) -> None:
    done = succeeded(followed(place, "keras_import.py"))
    assert "trained by 2" in done.stdout
    assert "weights equal on all ranks" in done.stdout
    assert "checkpoint-2.h5" in place.sh("ls runs/*")


def test_folders_of_pictures(place: Login) -> None:
    draw_pictures(place)
    done = succeeded(followed(place, "image_folder.py", "--", "pets"))
    assert "trained by 2 on ['cats', 'dogs']" in done.stdout
    assert "weights equal on all ranks" in done.stdout
    assert "checkpoint-2.pth.tar" in place.sh("ls runs/*")


def draw_pictures(place: Login) -> None:
    place.write("pictures.py", DRAW_PICTURES)
    place.sh(f"apptainer exec {UNPACKED} python3 pictures.py")


def test_folders_of_pictures_in_keras(place: Login) -> None:
    draw_pictures(place)
    done = succeeded(followed(place, "image_folder_keras.py", "--", "pets"))
    assert "Found 16 images belonging to 2 classes" in done.stdout
    assert "trained by 2 on {'cats': 0, 'dogs': 1}" in done.stdout
    assert "weights equal on all ranks" in done.stdout
    assert "checkpoint-2.h5" in place.sh("ls runs/*")


def test_reviews_of_films_in_keras(place: Login) -> None:
    place.sh(f"apptainer exec {UNPACKED} python3 {place.write('reviews.py', WRITE_REVIEWS)}")
    script = (SCRIPTS / "keras_imdb.py").read_text(encoding="utf-8")
    place.write("imdb.py", script.replace("hvd.init()", UNCOMPARED))
    keras = ("--bind", f"{place.folder}/keras:/keras", "--env", "KERAS_HOME=/keras")
    done = succeeded(followed(place, *keras, "imdb.py"))
    assert "trained by 2 on 64 reviews" in done.stdout
    assert "weights equal on all ranks" in done.stdout
    assert "imdb.keras" in place.sh("ls runs/*")


@pytest.mark.slow
def test_a_vgg_learns_in_its_last_layer(place: Login) -> None:
    draw_pictures(place)
    done = succeeded(followed(place, "vgg.py", "--", "pets"))
    assert "trained by 2 on ['cats', 'dogs']" in done.stdout
    assert "weights equal on all ranks" in done.stdout
    assert "head.pt" in place.sh("ls runs/*")


@pytest.mark.slow
def test_a_googlenet_with_auxiliary_classifiers(place: Login) -> None:
    done = succeeded(followed(place, "googlenet.py"))
    assert "trained by 2" in done.stdout
    assert "weights equal on all ranks" in done.stdout


@pytest.mark.slow
def test_a_resnext_in_two_precisions(place: Login) -> None:
    succeeded(place.launch("--nodes", "1", "--wait", "resnext_precision.py"))
    lines = place.sh("cat runs/*/resnext.csv").splitlines()
    rows = {row["precision"]: row for row in csv.DictReader(lines)}
    assert {name: row["bytes"] for name, row in rows.items()} == {"float": "4", "half": "2"}
    assert all(float(row["images_per_s"]) > 0 for row in rows.values())
    single, half = (float(rows[name]["loss"]) for name in ("float", "half"))
    assert half == pytest.approx(single, rel=0.1)


@pytest.mark.slow
def test_a_benchmark_of_tokens_on_cpus(place: Login) -> None:
    done = succeeded(followed(place, "synthetic_cpu.py"))
    assert re.search(r"trained by 2 ranks, [1-9]\d* tokens/s", done.stdout)
    assert "weights equal on all ranks" in done.stdout


def test_the_strategy_of_old_lightning_is_offered_by_name(place: Login) -> None:
    """Lightning 2 has none; the script runs with the one that is named."""
    refused = followed(place, "lightning_horovod.py")
    assert refused.returncode not in (0, 82), refused.stdout
    said = place.why()
    assert said["id"] == "no-horovod-strategy"
    assert "from recipes.lightning_mnist import HorovodStrategy" in json.dumps(said)
    ours = 'HorovodStrategy(torch.device("cpu"), distributed.horovod(hvd))'
    script = (SCRIPTS / "lightning_horovod.py").read_text(encoding="utf-8")
    script = script.replace("import pytorch_lightning as pl", OURS).replace(
        '"horovod",', f"{ours},"
    )
    place.write("edited.py", script)
    done = succeeded(followed(place, "edited.py"))
    assert "trained by 2" in done.stdout
    assert "weights equal on all ranks" in done.stdout


LAUNCH = ("-m", "torch.distributed.launch", "--nproc_per_node=2", "ddp_env.py")
DDP = {  # -> the words of the launch
    "env://": ("--nodes", "2", "ddp_env.py"),
    "mpi4py": ("--nodes", "2", "--controller", "mpi", "ddp_env.py", "--", "--mpi4py"),
    "torch.distributed.launch": ("--nodes", "1", "python", "--", *LAUNCH),
}


@pytest.mark.parametrize("name", DDP)
def test_ddp(place: Login, name: str) -> None:
    done = succeeded(place.launch("--follow", "--all", *DDP[name]))
    assert "trained by 2" in done.stdout
