"""Train a small convolutional network on handwritten digits, with PyTorch and Horovod.

Data: the 1,797 digits of 8 x 8 pixels that scikit-learn ships, or with `--data DIR` (or DATA_DIR)
MNIST, in IDX form or as mnist.npz. With the defaults at least 97 % of the test digits are right
after training, with 1, 2 or 4 ranks.

Run it:
    runner launch --image horovod_cpu.sif --nodes 2 torch_mnist -- --epochs 5
    horovodrun -np 2 python -m recipes.torch_mnist
    python -m recipes.torch_mnist

Rank 0 writes metrics.jsonl, result.json, checkpoints/ and tensorboard/ into OUTPUT_DIR (by hand:
`out`). To start a trainer of your own, copy this file; what is distributed in it is marked
`# Horovod:`.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

import horovod.torch as hvd
import torch
from torch import nn
from torch.nn import functional

from recipes import common, mnist, options, torch_run

MOMENTUM = 0.9


def parser() -> options.Parser:
    """Define the command line: every setting there is, its default and what it does."""
    parser = options.Parser(
        "torch_mnist",
        "Train a small network on handwritten digits.",
        not_here={"workers": "the data is in memory"},
    )
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
    options.allow_timeline(argv)
    hvd.init()  # Horovod: find the other ranks.
    # Horovod: each rank takes a GPU of its own, if there are any.
    args, device = torch_run.start(hvd, lambda: parser().settings(argv))
    # Horovod: an error on any rank stops all of them, with one message.
    data = common.on_all_ranks(hvd, lambda: mnist.load(args.data))
    run = torch_run.Run(args, hvd, "torch_mnist", device, about=data.describe())
    run.finish(train(run, data))
    hvd.shutdown()  # Horovod: leave together.


def train(run: torch_run.Run, data: mnist.Digits) -> nn.Module:
    """Train over all epochs, testing and recording after each; return the model."""
    args, device = run.args, run.device
    # Horovod: each rank learns from its own share, by its number among all ranks, not on its host.
    shards = run.deal(len(data.y_train))
    x, y, x_test, y_test = (
        torch.from_numpy(each).to(device)
        for each in (data.x_train, data.y_train, data.x_test, data.y_test)
    )
    model, optimizer = prepare(args, data, device)
    # Horovod: rank 0 reads and writes the checkpoints, of which all ranks have a part.
    run.resume(model, optimizer, shards)

    def guess(part: common.Indices) -> tuple[torch.Tensor, torch.Tensor]:
        return model(x_test[part]), y_test[part]

    for _ in run.epochs():
        model.train()
        for batch in run.batches():
            # Horovod: the rate grows with the number of ranks, after a warm-up.
            run.set_rate(optimizer, common.learning_rate(args, hvd.size(), run.epochs_done))
            optimizer.zero_grad()
            # Horovod: a part may be empty here and not on other ranks, which wait for this one.
            for part in batch.parts:
                with run.autocast():
                    loss = functional.cross_entropy(model(x[part]), y[part], reduction="sum")
                run.backward(loss)
            run.step(optimizer)  # Horovod: with the mean gradients of all ranks.
        run.epoch_done(lambda: run.evaluate(model, len(y_test), guess))
    return model


def prepare(
    args: Namespace, data: mnist.Digits, device: torch.device
) -> tuple[nn.Module, torch.optim.Optimizer]:
    """Build the model and its optimiser, equal on all ranks."""
    torch.manual_seed(args.seed)
    model = network(args, data).to(device)
    # Horovod: step() first averages the gradients over all ranks.
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=args.base_lr, momentum=MOMENTUM),
        named_parameters=model.named_parameters(),
        **torch_run.optimizer_options(args, hvd),
    )
    # Horovod: all ranks start from the weights of rank 0. The optimiser's state is empty, or comes
    # to all ranks from a checkpoint; hvd.broadcast_optimizer_state would take a step to make one,
    # and with weight decay that step changes the weights.
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    # Horovod: from here on another seed on each rank, for dropout that differs.
    torch.manual_seed(args.seed + 1 + hvd.rank())
    return model, optimizer


if __name__ == "__main__":
    main()
