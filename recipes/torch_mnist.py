"""Train a small convolutional network on handwritten digits, with PyTorch and Horovod.

Data: the 1,797 digits of 8 x 8 pixels that scikit-learn ships, or with `--data DIR` (or DATA_DIR)
MNIST, in IDX form or as mnist.npz. With the defaults at least 97 % of the test digits are right
after training, with 1, 2 or 4 ranks.

Run it:
    runner launch --image horovod_cpu.sif --nodes 2 torch_mnist -- --epochs 5
    horovodrun -np 2 python -m recipes.torch_mnist
    python -m recipes.torch_mnist

Rank 0 writes metrics.jsonl, result.json and checkpoints/torch_mnist.pt into OUTPUT_DIR (by hand:
`out`). To start a trainer of your own, copy this file; what is distributed in it is marked
`# Horovod:`.
"""

from __future__ import annotations

import os
import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from typing import BinaryIO

import horovod
import horovod.torch as hvd
import torch
from torch import nn
from torch.nn import functional

from recipes import common, mnist, results

MOMENTUM = 0.9
EVALUATION_BATCH = 1000  # samples at once: bounds the memory, changes no result


def settings(argv: Sequence[str] | None) -> Namespace:
    """Read the command line: every setting there is, its default and what it does."""
    parser = common.Parser("torch_mnist", "Train a small network on handwritten digits.")
    add = parser.add_argument
    add("--epochs", type=common.positive_int, default=16, help="passes over the training set")
    add("--batch-size", type=common.positive_int, default=32, help="samples per step, on each rank")
    # One rank's rate: with N ranks a step sees N times the samples, and the rate grows to N times.
    add("--base-lr", type=common.positive_float, default=0.05, help="learning rate for one rank")
    add("--warmup-epochs", type=common.natural_float, default=3, help="epochs to reach N times it")
    # The test set does not depend on it, so results with different seeds can be compared.
    add("--seed", type=common.natural_int, default=1, help="of first weights and sample order")
    add("--log-interval", type=common.positive_int, default=100, help="steps between log lines")
    # The launcher sets DATA_DIR and OUTPUT_DIR.
    add("--data", default=os.environ.get("DATA_DIR"), help="folder with MNIST; without: digits")
    add("--output", default=results.default_output(), help="folder for results and checkpoints")
    # Halves what travels between the ranks, at the price of rounding.
    add("--fp16-allreduce", action="store_true", help="exchange gradients as 16-bit floats")
    add("--max-steps", type=common.positive_int, help="stop after this many steps, for a trial")
    return parser.parse_args(argv)


def network(height: int, width: int, classes: int) -> nn.Module:
    """Build the model, for the 8 x 8 digits and for the 28 x 28 ones of MNIST alike."""
    return nn.Sequential(
        nn.Unflatten(1, (1, height)),  # one channel
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(64 * (height // 2) * (width // 2), classes),
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Be one of the ranks: read the settings and the data, train, tell what came of it."""
    hvd.init()  # Horovod: find the other ranks.
    device = pick_device()
    # Horovod: an error on any rank stops all of them, with one message.
    args = common.together(hvd, lambda: settings(argv))
    data = common.together(hvd, lambda: mnist.load(args.data))
    run = common.together(hvd, lambda: results.Run(args, hvd, "samples"))
    run.say(f"torch_mnist: {data.describe()}, {hvd.size()} ranks, {device}")

    model = train(args, run, data, device)

    # Horovod: all ranks must have ended with the same weights.
    digest = common.digest(weight.detach().cpu().numpy() for weight in model.parameters())
    common.assert_identical(hvd.allgather_object(digest, name="digest"))
    hosts = results.hosts(hvd)  # Horovod: collective, so before rank 0 goes its own way.
    run.finish(hosts, {"torch": torch.__version__, "horovod": horovod.__version__})
    hvd.shutdown()  # Horovod: leave together.


def pick_device() -> torch.device:
    """Choose a GPU if one is visible, else the CPU, with the threads this rank was given."""
    torch.set_num_threads(common.threads(hvd.local_size()))
    if not torch.cuda.is_available():
        return torch.device("cpu")
    # Horovod: the ranks of one host take its GPUs in turn.
    torch.cuda.set_device(hvd.local_rank() % torch.cuda.device_count())
    return torch.device("cuda", torch.cuda.current_device())


def prepare(
    args: Namespace, data: mnist.Digits, device: torch.device
) -> tuple[nn.Module, torch.optim.Optimizer]:
    """Build the model and its optimiser, equal on all ranks."""
    # Horovod: another seed on each rank, for dropout that differs; rank 0's first weights win.
    torch.manual_seed(args.seed + hvd.rank())
    model = network(data.height, data.width, data.classes).to(device)
    # Horovod: step() first averages the gradients over all ranks.
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=args.base_lr, momentum=MOMENTUM),
        named_parameters=model.named_parameters(),
        compression=hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none,
    )
    # Horovod: all ranks start from the weights and the optimiser state of rank 0.
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    return model, optimizer


def train(args: Namespace, run: results.Run, data: mnist.Digits, device: torch.device) -> nn.Module:
    """Train over all epochs, testing and recording after each; return the model."""
    model, optimizer = prepare(args, data, device)
    # Horovod: each rank learns from its own share, by its number among all ranks, not on its host.
    shards = common.Shards(len(data.y_train), hvd.rank(), hvd.size(), args.seed)
    steps_per_epoch = shards.steps(args.batch_size)
    last_step = min(args.epochs * steps_per_epoch, args.max_steps or sys.maxsize)
    x, y = torch.from_numpy(data.x_train).to(device), torch.from_numpy(data.y_train).to(device)
    step = epoch = 0
    while step < last_step:
        epoch += 1
        shards.set_epoch(epoch)  # Horovod: another order in each epoch, the same on all ranks.
        model.train()
        loss_sum, seen, began = torch.zeros((), device=device), 0, time.perf_counter()
        for batch in shards.batches(args.batch_size)[: last_step - step]:
            # Horovod: the rate grows with the number of ranks, after a warm-up.
            progress = step / steps_per_epoch
            rate = common.learning_rate(args.base_lr, hvd.size(), progress, args.warmup_epochs)
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x[batch]), y[batch])
            loss.backward()
            optimizer.step()
            step += 1
            loss_sum += loss.detach() * len(batch)
            seen += len(batch)
            run.step_done(step, loss.detach())
        local = [loss_sum.item(), seen]  # item() waits for the device: the clock stops after it
        seconds = time.perf_counter() - began
        # Horovod: sums over all ranks, so that the means count every sample alike.
        local = torch.tensor([*local, *evaluate(model, data, device)], dtype=torch.float64)
        sums = hvd.allreduce(local, op=hvd.Sum, name="sums").tolist()
        run.epoch_done(sums, epoch=epoch, step=step, learning_rate=rate, seconds=seconds)
        run.checkpoint("torch_mnist.pt", partial(save, args, model, optimizer, epoch))
    return model


def evaluate(model: nn.Module, data: mnist.Digits, device: torch.device) -> list[float]:
    """Test this rank's share; return its sum of losses, its right answers and its size."""
    # Horovod: shares differ in size and may be empty, so nothing is exchanged in here.
    share = common.evaluation_share(len(data.y_test), hvd.rank(), hvd.size())
    loss = right = 0.0
    model.eval()
    with torch.no_grad():
        for part in common.chunks(share, EVALUATION_BATCH):
            x = torch.from_numpy(data.x_test[part]).to(device)
            y = torch.from_numpy(data.y_test[part]).to(device)
            guesses = model(x)
            loss += functional.cross_entropy(guesses, y, reduction="sum").item()
            right += (guesses.argmax(1) == y).sum().item()
    return [loss, right, len(share)]


def save(
    args: Namespace,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    epoch: int,
    stream: BinaryIO,
) -> None:
    """Write a checkpoint: weights, optimiser state, and the settings that led to them."""
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save({**state, "epoch": epoch, "arguments": vars(args)}, stream)


if __name__ == "__main__":
    main()
