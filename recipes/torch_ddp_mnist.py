"""Train a small convolutional network on handwritten digits, with PyTorch's own DDP.

The comparison for `torch_mnist`: the same network, data, options and results, but the gradients
are exchanged by torch.distributed.

Data: the 1,797 digits of 8 x 8 pixels that scikit-learn ships, or with `--data DIR` (or DATA_DIR)
MNIST, in IDX form or as mnist.npz.

Run it:
    runner launch --image horovod_cpu.sif --nodes 2 torch_ddp_mnist -- --epochs 5
    torchrun --nproc-per-node 2 -m recipes.torch_ddp_mnist
    python -m recipes.torch_ddp_mnist

Rank 0 writes metrics.jsonl, result.json, checkpoints/ and tensorboard/ into OUTPUT_DIR (by hand:
`out`). What is distributed in this file is marked `# DDP:`.
"""

from __future__ import annotations

import contextlib
from argparse import Namespace
from collections.abc import Sequence

import torch
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from recipes import common, mnist, options, process_group, torch_run
from recipes.process_group import World

MOMENTUM = 0.9


def parser() -> options.Parser:
    """Define the command line: every setting there is, its default and what it does."""
    not_here = {**options.without_horovod("DDP"), "workers": "the data is in memory"}
    about = "Train a small network on digits, with DDP."
    parser = options.Parser("torch_ddp_mnist", about, not_here)
    options.add_common(parser, epochs=16, batch_size=32, base_lr=0.05, warmup=3)
    parser.add_argument("--dropout", type=options.fraction, default=0.5, help="share of zeros")
    return parser


def network(args: Namespace, data: mnist.Digits) -> nn.Module:
    """Build the model, for the 8 x 8 digits and for the 28 x 28 ones of MNIST alike."""
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


def main(argv: Sequence[str] | None = None) -> None:
    """Be one of the ranks: read the settings and the data, train, tell what came of it."""
    world = process_group.join()  # DDP: find the other ranks.
    # DDP: each rank takes a GPU of its own, if there are any.
    args, device = torch_run.start(world, lambda: parser().settings(argv))
    # DDP: an error on any rank stops all of them, with one message.
    data = common.on_all_ranks(world, lambda: mnist.load(args.data))
    run = torch_run.Run(args, world, "torch_ddp_mnist", device, about=data.describe())
    run.finish(train(run, world, data), exchange="ddp")
    world.shutdown()  # DDP: leave together,
    common.leave(0)  # and at once: Gloo's threads may abort Python's way out.


def train(run: torch_run.Run, world: World, data: mnist.Digits) -> nn.Module:
    """Train over all epochs, testing and recording after each; return the model."""
    args, device = run.args, run.device
    # DDP: each rank learns from its own share, by its number among all ranks, not on its host.
    shards = run.deal(len(data.y_train))
    x, y, x_test, y_test = (
        torch.from_numpy(each).to(device)
        for each in (data.x_train, data.y_train, data.x_test, data.y_test)
    )
    model, optimizer = prepare(args, world, data, device)
    # DDP: rank 0 reads and writes the checkpoints, of which all ranks have a part.
    run.resume(model.module, optimizer, shards)

    def guess(part: common.Indices) -> tuple[torch.Tensor, torch.Tensor]:
        return model.module(x_test[part]), y_test[part]

    for _ in run.epochs():
        model.train()
        for batch in run.batches():
            # DDP: the rate grows with the number of ranks, after a warm-up.
            run.set_rate(optimizer, common.learning_rate(args, world.size(), run.epochs_done))
            optimizer.zero_grad()
            # DDP: a part may be empty here and not on other ranks, which wait for this one.
            for number, part in enumerate(batch.parts, 1):
                # DDP: the last backward pass of a step exchanges what all of them added up.
                last = number == len(batch.parts)
                with contextlib.nullcontext() if last else model.no_sync():
                    with run.autocast():
                        loss = functional.cross_entropy(model(x[part]), y[part], reduction="sum")
                    run.backward(loss)
            run.step(optimizer)
        run.epoch_done(lambda: run.evaluate(model.module, len(y_test), guess))
    return model.module


def prepare(
    args: Namespace, world: World, data: mnist.Digits, device: torch.device
) -> tuple[DistributedDataParallel, torch.optim.Optimizer]:
    """Build the model and its optimiser, equal on all ranks."""
    torch.manual_seed(args.seed)
    plain = network(args, data).to(device)
    # DDP: all ranks start from the weights of rank 0; backward() averages gradients over all ranks.
    model = DistributedDataParallel(plain, device_ids=None if device.type == "cpu" else [device])
    if args.fp16_allreduce:
        model.register_comm_hook(None, fp16_compress_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.base_lr, momentum=MOMENTUM)
    # DDP: from here on another seed on each rank, for dropout that differs.
    torch.manual_seed(args.seed + 1 + world.rank())
    return model, optimizer


if __name__ == "__main__":
    main()
