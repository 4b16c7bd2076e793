"""Train a ResNet on pictures, or measure its speed on synthetic ones, with PyTorch and Horovod.

Data: with `--data DIR` (or DATA_DIR) an ImageNet folder, train/CLASS/*.JPEG and val/CLASS/*.JPEG,
for resnet50 and resnet18; CIFAR-10 for resnet110 and resnet20. With `--synthetic` nothing is read:
result.json has the speed, without the first epoch, which warms up. `runner scale` measures it with
its confidence interval.

Run it:
    runner launch --image horovod_cpu.sif --nodes 2 torch_resnet -- --epochs 5 --synthetic
    horovodrun -np 2 python -m recipes.torch_resnet --model resnet110 --data cifar10
    python -m recipes.torch_resnet --synthetic --image-size 64

Rank 0 writes metrics.jsonl, result.json, checkpoints/ and tensorboard/ into OUTPUT_DIR (by hand:
`out`). To start a trainer of your own, copy this file; what is distributed in it is marked
`# Horovod:`. Ranks normalise over their own batches, as is usual: so, unlike `torch_mnist`, N ranks
with batches of b learn a little differently from one rank with batches of N b.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence

import horovod.torch as hvd
import torch
from torch import nn
from torch.nn import functional

from recipes import (
    common,
    options,
    resnet_data,
    resnet_options,
    torch_pictures,
    torch_resnet_model,
    torch_run,
)
from recipes.pictures import PictureSet


def parser() -> options.Parser:
    """Define the command line; `resnet_options` has every setting."""
    return resnet_options.parser("torch_resnet")


def main(argv: Sequence[str] | None = None) -> None:
    """Be one of the ranks: read the settings, open the data, train, tell what came of it."""
    options.allow_timeline(argv)
    hvd.init()  # Horovod: find the other ranks.
    # Horovod: each rank takes a GPU of its own, if there are any.
    args, device = torch_run.start(hvd, lambda: resnet_options.check(parser().settings(argv)))
    data = resnet_data.load(args, hvd)  # Horovod: one rank looks for the files, for all.
    about = f"{args.model} on {data.describe()}"
    run = torch_run.Run(args, hvd, "torch_resnet", device, about=about)
    run.finish(train(run, data))
    hvd.shutdown()  # Horovod: leave together.


def train(run: torch_run.Run, data: PictureSet) -> nn.Module:
    """Train over all epochs, testing and recording after each; return the model."""
    args, device = run.args, run.device
    # Horovod: each rank learns from its own share, by its number among all ranks, not on its host.
    # A short last step is left out: a rank's mean over one picture, or none, is no mean.
    shards = run.deal(len(data.train), "pictures", whole_steps=True)
    model, optimizer = prepare(args, data, device)
    # Horovod: rank 0 reads and writes the checkpoints, of which all ranks have a part.
    run.resume(model, optimizer, shards, State)
    feed = torch_pictures.Feed(data, run.loop, args.epochs, args.workers, device)
    for _ in run.epochs():
        model.train()
        for batch in run.batches():
            # Horovod: the rate grows with the number of ranks, after a warm-up.
            run.set_rate(optimizer, resnet_data.rate(args, hvd, run.epochs_done))
            optimizer.zero_grad()
            for part in batch.parts:
                x, y = run.read(feed, part)
                with run.autocast():
                    loss = functional.cross_entropy(
                        model(x), y, reduction="sum", label_smoothing=args.label_smoothing
                    )
                run.backward(loss)
            run.step(optimizer)  # Horovod: with the mean gradients of all ranks.
        run.epoch_done(lambda: evaluate(run, model, data))
    return model


class State(torch_run.State):
    """What a checkpoint holds: the same running statistics for all ranks."""

    def gather(self) -> None:
        """Collect the random states. Collective."""
        average_statistics(self.model)
        super().gather()


def prepare(
    args: Namespace, data: PictureSet, device: torch.device
) -> tuple[nn.Module, torch.optim.Optimizer]:
    """Build the model and its optimiser, equal on all ranks."""
    torch.manual_seed(args.seed)
    model = torch_resnet_model.build(args.model, data.classes).to(device)
    weights = torch_resnet_model.decayed(model, args.weight_decay)
    # Horovod: step() first averages the gradients over all ranks.
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(weights, lr=args.base_lr, momentum=args.momentum),
        named_parameters=model.named_parameters(),
        **torch_run.optimizer_options(args, hvd),
    )
    # Horovod: all ranks start from the weights of rank 0. The optimiser's state is empty, or comes
    # to all ranks from a checkpoint; hvd.broadcast_optimizer_state would take a step to make one,
    # and with weight decay that step changes the weights.
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    return model, optimizer


def average_statistics(model: nn.Module) -> None:
    """Let all ranks go on with the same running statistics: the mean of what each has seen."""
    own = [one for one in model.buffers() if one.is_floating_point()]
    # Horovod: all of them in one exchange.
    for mine, mean in zip(own, hvd.grouped_allreduce(own, op=hvd.Average, name="statistics")):
        mine.copy_(mean)


def evaluate(run: torch_run.Run, model: nn.Module, data: PictureSet) -> list[float]:
    """Test this rank's share; return its sum of losses, its right answers and its size."""
    average_statistics(model)
    scaled, args = torch_pictures.Scaled(data, run.device), run.args

    def guess(parts: Sequence[common.Indices]) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        keys = [(0, part) for part in parts]
        for x, y in torch_pictures.stream(data.test, keys, args.workers, scaled):
            yield model(x), y

    return run.evaluate(model, len(data.test), guess, args.batch_size)


if __name__ == "__main__":
    main()
