"""Predict the digits of image files with a checkpoint of torch_mnist, with PyTorch and Horovod.

Data: `--data DIR` (or DATA_DIR), a folder with images and folders of images, each of the size that
the network was trained with, white on black as there. Each rank predicts its share of the files;
rank 0 merges the results into predictions.csv (file, label, probability) in OUTPUT_DIR (without
runner: `out`), in the order of the files' names, and writes result.json.

Run it:
    runner launch --image horovod_cpu.sif --nodes 2 --data DIR torch_predict -- --checkpoint RUN
    horovodrun -np 2 python -m recipes.torch_predict --data DIR --checkpoint RUN
    python -m recipes.torch_predict --data DIR --checkpoint RUN

RUN is a run of torch_mnist, its newest checkpoint that is whole, or one of its checkpoints. What is
distributed in this file is marked `# Horovod:`. Nothing is trained and no gradients are exchanged.
"""

from __future__ import annotations

import csv
import io
import math
import socket
import time
from argparse import Namespace
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import horovod.torch as hvd
import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import nn

from recipes import checkpoints, distributed, options, run_torch, torch_mnist
from recipes.distributed import UserError

TRAINER = "torch_mnist"
KINDS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")
Row = tuple[str, int, float]  # file, label, probability


def parser() -> options.BareParser:
    """Define the options."""
    parser = options.BareParser("torch_predict", "Predict the digits of image files.")
    add = parser.add_argument
    text = "a run of torch_mnist, or one of its checkpoints"
    add("--checkpoint", required=True, metavar="RUN", help=text)
    add("--batch-size", type=options.at_least(1), default=500, help="images of a rank at once")
    parser.add_data("folder with the images")
    parser.add_output("folder for the results")
    parser.add_device()
    return parser


def find_files(folder: str | None) -> list[str]:
    """Return the images below a folder, sorted, relative to it. Raises `UserError`."""
    if not folder:
        raise UserError("no images are given. Name their folder: runner launch --data DIR ...")
    root = Path(folder)
    if not root.is_dir():
        raise UserError(f"the data folder {root} does not exist or is not a folder.")
    found = (path for path in root.rglob("*") if path.suffix.lower() in KINDS and path.is_file())
    files = sorted(str(path.relative_to(root)) for path in found)
    if not files:
        raise UserError(
            f"no images in {root}. Looked there, and in its folders, for {' '.join(KINDS)}"
        )
    return files


def load(word: str) -> tuple[Path, dict[str, torch.Tensor]]:
    """Return the checkpoint that `word` means, and its weights. Raises `UserError`."""
    path = Path(word)
    if not path.exists():
        raise UserError(f"--checkpoint {word}: there is no such file or folder")
    if path.is_dir():
        folder = path / "checkpoints" if (path / "checkpoints").is_dir() else path
        path = max(folder.glob("step-*.json"), default=folder)
        if path == folder:
            raise UserError(f"--checkpoint {word}: there is no checkpoint in {folder}")
    _, payload = checkpoints.load(path.with_suffix(".json"), TRAINER)
    assert isinstance(payload, bytes)  # only FSDP's are folders
    saved = torch.load(io.BytesIO(payload), map_location="cpu", weights_only=True)
    return path.with_suffix(".ckpt"), saved["model"]


def begin(args: Namespace) -> tuple[list[str], Path, dict[str, torch.Tensor]]:
    """Return the files, the checkpoint and its weights; make the output folder."""
    try:
        Path(args.output).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the output folder {args.output}: {error.strerror}") from error
    return find_files(args.data), *load(args.checkpoint)


def build_model(path: Path, weights: dict[str, torch.Tensor]) -> tuple[nn.Module, int]:
    """Return torch_mnist's network with these weights, and the side of its images.

    Raises `UserError` for the weights of another one.
    """
    try:
        classes, features = weights["8.weight"].shape  # of the last layer
        side = 2 * math.isqrt(features // 64)
        shape: Any = SimpleNamespace(height=side, width=side, classes=classes)
        model = torch_mnist.build_model(Namespace(dropout=0.0), shape)
        model.load_state_dict(weights)
    except (KeyError, ValueError, RuntimeError) as error:
        raise UserError(
            f"{path} is of another model than torch_mnist's: {error}\n"
            "If its network was edited, put the same build_model into a copy of both trainers."
        ) from error
    return model.eval(), side


def read(path: Path, side: int) -> NDArray[np.float32]:
    """Return an image in gray, from 0 (black) to 1. Raises `UserError`."""
    try:
        with Image.open(path) as image:
            gray = np.asarray(image.convert("L"))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise UserError(f"cannot read the image {path}: {error}") from error
    if gray.shape != (side, side):
        height, width = gray.shape
        raise UserError(
            f"{path} is {width} x {height} pixels, and the network was trained with {side} x {side}"
        )
    return gray.astype(np.float32) / np.float32(255)


@torch.inference_mode()
def predict(
    args: Namespace, model: nn.Module, side: int, device: Any, files: list[str]
) -> list[Row]:
    """Return the most likely digit of each file, and its probability. Raises `UserError`."""
    rows: list[Row] = []
    for start in range(0, len(files), args.batch_size):
        names = files[start : start + args.batch_size]
        pixels = np.stack([read(Path(args.data, name), side) for name in names])
        with run_torch.autocast(args, device):
            logits = model(torch.from_numpy(pixels).to(device))
        most, labels = logits.float().softmax(1).max(1)
        rows += zip(names, labels.tolist(), most.tolist())
    return rows


def write(args: Namespace, rows: list[Row], facts: dict[str, Any]) -> None:
    """Write predictions.csv, and result.json after it. Raises `UserError`."""
    table, folder = io.StringIO(), Path(args.output)
    csv.writer(table, lineterminator="\n").writerows([("file", "label", "probability"), *rows])
    try:
        checkpoints.write_atomically(folder / "predictions.csv", table.getvalue().encode())
        checkpoints.write_json(folder / "result.json", facts)
    except OSError as error:
        raise UserError(f"cannot write to the output folder {folder}: {error.strerror}") from error
    speed = f"{facts['files_per_s']:.0f} files/s"
    print(f"{len(rows)} files, {speed}, predictions in {folder / 'predictions.csv'}", flush=True)


def main() -> None:
    world = distributed.horovod(hvd)  # Horovod: find the other ranks.
    # Horovod: an error on any rank is printed once and ends all of them.
    args = distributed.together(world, parser().parse_args)
    # Horovod: each rank takes a GPU of its own, if there are any.
    device = distributed.together(world, lambda: run_torch.pick_device(args, world))
    # Horovod: rank 0 lists the files and reads the checkpoint, for all.
    begun = distributed.together(world, lambda: None if world.rank else begin(args))
    files, path, weights = world.broadcast(begun)
    model, side = distributed.together(world, lambda: build_model(path, weights))
    model.to(device)

    began = time.perf_counter()
    mine = files[world.rank :: world.size]  # Horovod: this rank's share of the files.
    rows = distributed.together(world, lambda: predict(args, model, side, device, mine))
    # Horovod: rank 0 merges what all have predicted.
    everyone = world.gather((socket.gethostname(), rows))
    merged = sorted(row for _, share in everyone for row in share)
    labels = Counter(label for _, label, _ in merged)
    facts = {
        "files": len(files),
        "files_per_s": len(files) / (time.perf_counter() - began),
        "labels": {str(label): count for label, count in sorted(labels.items())},
        "checkpoint": str(path),
        "world_size": world.size,
        "hosts": [host for host, _ in everyone],
        "device": str(device),
        "arguments": vars(args),
        "finished": checkpoints.now(),
    }
    distributed.together(world, lambda: None if world.rank else write(args, merged, facts))
    world.close()


if __name__ == "__main__":
    main()
