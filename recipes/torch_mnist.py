"""Train a small convolutional network on handwritten digits, with PyTorch and Horovod or DDP.

Data: the 1,797 digits of 8 x 8 pixels that scikit-learn ships, or with `--data DIR` (or DATA_DIR)
MNIST, in IDX form or as mnist.npz. With the defaults at least 97 % of the test digits are right
after training, with 1, 2 or 4 ranks.

Run it:
    runner launch --image horovod_cpu.sif --nodes 2 torch_mnist -- --epochs 5
    horovodrun -np 2 python -m recipes.torch_mnist
    torchrun --nproc-per-node 2 -m recipes.torch_mnist --exchange ddp
    python -m recipes.torch_mnist

Rank 0 writes metrics.jsonl, result.json and checkpoints/ into OUTPUT_DIR (without runner: `out`).
What is distributed in this file is marked `# Horovod:` and `# DDP:`. Horovod need not be installed
for `--exchange ddp`, which trains the same model by PyTorch alone.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from recipes import digits, distributed, options, run_torch
from recipes.distributed import Batch
from recipes.run import Run

EXCHANGE = options.option("--exchange", "horovod")
if EXCHANGE == "horovod":
    import horovod.torch as hvd


def parser() -> options.Parser:
    """Define the options of this trainer beside those of all."""
    parser = options.Parser("torch_mnist", "Train a small network on handwritten digits.")
    add = parser.add_argument
    add("--exchange", choices=("horovod", "ddp"), default="horovod", help="averages the gradients")
    add("--epochs", type=options.at_least(1), default=16, help="passes over the training set")
    add("--batch-size", type=options.at_least(1), default=32, help="samples of a rank and pass")
    add("--base-lr", type=options.at_least(0.0), default=0.05, help="learning rate for one rank")
    add("--warmup-epochs", type=options.at_least(0.0), default=3, help="epochs to N times it")
    add("--dropout", type=options.at_least(0.0, below=1), default=0.5, help="dropout probability")
    parser.add_accumulation()
    add("--compile", action="store_true", help="compile the model by torch.compile")
    parser.add_horovod()
    return parser


def build_model(args: Namespace, data: digits.Digits) -> nn.Module:
    """Build the network, for the 8 x 8 digits and for the 28 x 28 ones of MNIST alike."""
    return nn.Sequential(
        nn.Unflatten(1, (1, data.height)),  # one channel
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(args.dropout),
        nn.Linear(64 * (data.height // 2) * (data.width // 2), data.classes),
    )


def distribute(
    args: Namespace, model: nn.Module, optimizer: torch.optim.Optimizer
) -> tuple[nn.Module, torch.optim.Optimizer]:
    """Return the model to call and the optimizer, which average the gradients over all ranks."""
    if EXCHANGE == "ddp":
        # DDP: all ranks start from the weights of rank 0; backward() averages the gradients.
        return run_torch.with_ddp(model, args.fp16_allreduce), optimizer
    # Horovod: all ranks start from the weights of rank 0; step() first averages the gradients.
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    return model, hvd.DistributedOptimizer(
        optimizer,
        named_parameters=model.named_parameters(),
        op=hvd.Adasum if args.adasum else hvd.Average,
        compression=hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none,
        backward_passes_per_step=args.batches_per_allreduce,
    )


def backward(
    args: Namespace,
    network: nn.Module,
    forward: Callable[[torch.Tensor], torch.Tensor],
    batch: Batch,
    x: torch.Tensor,
    y: torch.Tensor,
) -> torch.Tensor:
    """Do the backward passes of a step; return the sum of the losses of this rank's samples."""
    losses = torch.zeros((), device=x.device)
    # Horovod: a part may be empty here and not on other ranks, which wait for this one.
    for number, part in enumerate(batch.parts, 1):
        # DDP: the last backward pass of a step exchanges what all of them added up.
        with run_torch.pass_of_step(network, number == len(batch.parts)):
            with run_torch.autocast(args, x.device):
                loss = functional.cross_entropy(forward(x[part]), y[part], reduction="sum")
            # With Adasum the mean of this rank's samples, else a share of the mean of all.
            weight = 1 / max(1, batch.own) if args.adasum else batch.weight
            (loss * weight).backward()
        losses += loss.detach()
    return losses


def main() -> None:
    # Horovod: find the other ranks.
    world = distributed.horovod(hvd) if EXCHANGE == "horovod" else distributed.torch_ranks()
    # Horovod: an error on any rank is printed once and ends all of them.
    args = distributed.together(world, lambda: distributed.check(parser().parse_args(), world))
    # Horovod: each rank takes a GPU of its own, if there are any.
    device = distributed.together(world, lambda: run_torch.pick_device(args, world))
    data = distributed.together(world, lambda: digits.load(args.data))
    framework = run_torch.framework(device, world)
    run = Run(args, world, "torch_mnist", framework, data.describe())

    torch.manual_seed(args.seed)
    model = build_model(args, data).to(device)
    on_gpu = device.type == "cuda"
    sgd = torch.optim.SGD(model.parameters(), lr=args.base_lr, momentum=0.9, fused=on_gpu)
    network, optimizer = distribute(args, model, sgd)
    # Horovod: from here on another seed on each rank, for dropout that differs.
    torch.manual_seed(args.seed + 1 + world.rank)
    forward = torch.compile(network) if args.compile else network

    x, y, x_test, y_test = (  # the whole dataset lies on the device
        torch.from_numpy(array).to(device)
        for array in (data.x_train, data.y_train, data.x_test, data.y_test)
    )

    def predict(part: Any) -> tuple[torch.Tensor, torch.Tensor]:
        return model(x_test[part]), y_test[part]

    # Horovod: rank 0 reads and writes the checkpoints, of which all ranks have a part.
    run.begin(len(y), run_torch.State(world, model, optimizer))
    test = run.test_parts(len(y_test), run_torch.TEST_BATCH)
    for _ in run.epochs():
        for batch in run.batches():  # Horovod: this rank's samples of a step.
            # Horovod: the rate grows with the number of ranks, after a warm-up.
            rate = distributed.learning_rate(args, world.size, run.epochs_done)
            run_torch.set_rate(run, optimizer, rate)
            optimizer.zero_grad()
            losses = backward(args, network, forward, batch, x, y)
            optimizer.step()  # Horovod: with the mean gradients of all ranks.
            run.step_done(losses)
        run.epoch_done(lambda: run_torch.evaluate(run, model, test, predict))
    run.finish(run_torch.arrays(model.parameters()), exchange=EXCHANGE)


if __name__ == "__main__":
    main()
