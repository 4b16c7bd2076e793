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

ResNet-50 is "version 1.5" of He et al. 2015 (arXiv:1512.03385, table 1): where a block halves the
picture, its middle convolution does it, and not its first one, as in torchvision and NVIDIA's
benchmarks.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

import horovod.torch as hvd
import torch
from torch import nn
from torch.nn import functional

from recipes import common, options, resnet_data, resnet_options, torch_pictures, torch_run
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
        average_statistics(self.model)
        super().gather()


def prepare(
    args: Namespace, data: PictureSet, device: torch.device
) -> tuple[nn.Module, torch.optim.Optimizer]:
    """Build the model and its optimiser, equal on all ranks."""
    torch.manual_seed(args.seed)
    model = build(args.model, data.classes).to(device)
    weights = decayed(model, args.weight_decay)
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
    keys = [(0, part) for part in run.test_parts(len(data.test), args.batch_size)]
    ahead = torch_pictures.stream(data.test, keys, args.workers, scaled)

    def guess(part: common.Indices) -> tuple[torch.Tensor, torch.Tensor]:
        x, y = next(ahead)
        return model(x), y

    return run.evaluate(model, len(data.test), guess, args.batch_size)


def build(name: str, classes: int) -> nn.Module:
    """Build a ResNet by its name (see `STAGES`) for inputs (count, 3, size, size)."""
    block, widths, depths = STAGES[name]
    if widths[0] == 64:
        stem = [*_normalised(3, 64, 7, stride=2), nn.ReLU(), nn.MaxPool2d(3, 2, padding=1)]
    else:
        stem = [*_normalised(3, widths[0], 3), nn.ReLU()]
    model = nn.Sequential(*stem, *_stages(block, widths, depths))
    model.extend([nn.AdaptiveAvgPool2d(1), nn.Flatten()])
    model.append(nn.Linear(widths[-1] * block.growth, classes))
    model.apply(_begin)
    return model


def decayed(model: nn.Module, decay: float) -> list[dict[str, object]]:
    """Return the weights for an optimiser: weight decay is for matrices, not scales and biases."""
    weights = list(model.parameters())
    return [
        {"params": [one for one in weights if one.ndim > 1], "weight_decay": decay},
        {"params": [one for one in weights if one.ndim <= 1], "weight_decay": 0.0},
    ]


class Basic(nn.Module):  # type: ignore[misc]  # torch is not installed where types are checked
    """Two convolutions, around which the input is led and added."""

    growth = 1

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *_normalised(inputs, width, 3, stride), nn.ReLU(), *_normalised(width, width, 3)
        )
        self.around = _around(inputs, width, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (count, inputs, h, w) to (count, width * growth, h / stride, w / stride)."""
        return torch.relu(self.around(x) + self.body(x))


class Bottleneck(Basic):
    """Three convolutions, of which the middle one sees fewer channels."""

    growth = 4

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        nn.Module.__init__(self)
        outputs = width * self.growth
        self.body = nn.Sequential(
            *_normalised(inputs, width, 1), nn.ReLU(),
            *_normalised(width, width, 3, stride), nn.ReLU(),
            *_normalised(width, outputs, 1),
        )  # fmt: skip
        self.around = _around(inputs, outputs, stride)


#: Kind of block, widths of the stages, and blocks in each.
STAGES: dict[str, tuple[type[Basic], tuple[int, ...], tuple[int, ...]]] = {
    "resnet50": (Bottleneck, (64, 128, 256, 512), (3, 4, 6, 3)),
    "resnet18": (Basic, (64, 128, 256, 512), (2, 2, 2, 2)),
    "resnet110": (Basic, (16, 32, 64), (18, 18, 18)),
    "resnet20": (Basic, (16, 32, 64), (3, 3, 3)),
}


def _stages(
    block: type[Basic], widths: tuple[int, ...], depths: tuple[int, ...]
) -> list[nn.Module]:
    """Return all blocks; each stage but the first halves the picture in its first block."""
    blocks, inputs = [], widths[0]
    for number, (width, depth) in enumerate(zip(widths, depths)):
        for place in range(depth):
            blocks.append(block(inputs, width, 2 if number and not place else 1))
            inputs = width * block.growth
    return blocks


def _around(inputs: int, outputs: int, stride: int) -> nn.Module:
    """Return the way around a block, with a convolution where its output has another shape."""
    if stride == 1 and inputs == outputs:
        return nn.Identity()
    return nn.Sequential(*_normalised(inputs, outputs, 1, stride))


def _normalised(inputs: int, outputs: int, size: int, stride: int = 1) -> list[nn.Module]:
    convolution = nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False)
    return [convolution, nn.BatchNorm2d(outputs)]


def _begin(module: nn.Module) -> None:
    """Draw first weights; each block begins as what is led around it (Goyal et al. 2017)."""
    if isinstance(module, nn.Conv2d):
        nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    elif isinstance(module, Basic):
        nn.init.zeros_(module.body[-1].weight)


if __name__ == "__main__":
    main()
