"""Train ResNet-50 on ImageNet or ResNet-20 on CIFAR-10, with PyTorch and Horovod or DDP.

Data: with `--data DIR` (or DATA_DIR) an ImageNet folder, train/CLASS/*.JPEG and val/CLASS/*.JPEG;
with `--model resnet20` CIFAR-10. With `--synthetic` random images, made once on the device, measure
the speed: result.json has it without the first epoch, and `runner scale` its confidence interval.

Run it:
    runner launch --image horovod_cpu.sif --nodes 2 torch_resnet -- --epochs 5 --synthetic
    horovodrun -np 2 python -m recipes.torch_resnet --model resnet20 --data cifar10
    torchrun --nproc-per-node 2 -m recipes.torch_resnet --exchange ddp --synthetic
    python -m recipes.torch_resnet --synthetic --image-size 64

Rank 0 writes metrics.jsonl, result.json and checkpoints/ into OUTPUT_DIR (without runner: `out`).
What is distributed in this file is marked `# Horovod:` and `# DDP:`. Batch normalization uses a
rank's own batch, as is usual: so N ranks with batches of b learn a little differently from one rank
with batches of N b. With one rank nothing is exchanged, and neither Horovod nor DDP takes part.

ResNet-50 is "version 1.5" of He et al. 2015 (arXiv:1512.03385): the 3 x 3 convolution of a block
has its stride. Its weights have the names of torchvision's.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from recipes import images, options, ranks, run_torch
from recipes.ranks import Ranks, UserError

EXCHANGE = options.option("--exchange", "horovod")
if EXCHANGE == "horovod":
    import horovod.torch as hvd

STEPS = {"cpu": 10, "cuda": 50}  # of an epoch with --synthetic
FLOPS = 3 * 2 * 4.089e9  # ResNet-50, 224 x 224: 4.089 G multiply-adds forward, backward twice that


def parser() -> options.Parser:
    """Define the options of this trainer beside those of all."""
    parser = options.Parser("torch_resnet", "Train a ResNet on images.")
    add = parser.add_argument
    exchanges = ("horovod", "ddp")
    add("--exchange", choices=exchanges, default="horovod", help="what averages the gradients")
    add("--model", choices=("resnet50", "resnet20"), default="resnet50", help="20: for CIFAR-10")
    add("--synthetic", action="store_true", help="measure the speed with random images")
    add("--image-size", type=options.at_least(1), help="pixels, for resnet50; default 224")
    add("--epochs", type=options.at_least(1), default=90, help="passes over the training set")
    add("--batch-size", type=options.at_least(2), default=32, help="images of a rank and pass")
    # 0.1 for 256 images (Goyal et al. 2017, arXiv:1706.02677) is 0.0125 for 32.
    add("--base-lr", type=options.at_least(0.0), default=0.0125, help="learning rate of one rank")
    add("--warmup-epochs", type=options.at_least(0.0), default=5, help="epochs to N times it")
    add("--schedule", choices=("step", "cosine", "constant"), default="step", help="of the rate")
    add("--momentum", type=options.at_least(0.0, below=1), default=0.9, help="momentum of SGD")
    decay = "weight decay, not of biases and batch normalization"
    add("--weight-decay", type=options.at_least(0.0), default=1e-4, help=decay)
    smoothing = "share of the label spread over all classes"
    add("--label-smoothing", type=options.at_least(0.0, below=1), default=0.0, help=smoothing)
    accumulation = "gradient accumulation steps"
    add("--batches-per-allreduce", type=options.at_least(1), default=1, help=accumulation)
    workers = "processes that decode images; default: the rank's CPUs with a GPU, else 0"
    add("--workers", type=options.at_least(0), help=workers)
    add("--compile", action="store_true", help="compile the model by torch.compile")
    parser.add_horovod()
    return parser


class Block(nn.Module):  # type: ignore[misc]  # torch is not installed where types are checked
    """Two or three convolutions, and the input added to their output."""

    def __init__(self, inputs: int, width: int, stride: int, bottleneck: bool) -> None:
        super().__init__()
        outputs = 4 * width if bottleneck else width
        shapes = [(inputs, width, 3, stride), (width, outputs, 3, 1)]
        if bottleneck:
            shapes = [(inputs, width, 1, 1), (width, width, 3, stride), (width, outputs, 1, 1)]
        for number, shape in enumerate(shapes, 1):
            self.add_module(f"conv{number}", convolution(*shape))
            self.add_module(f"bn{number}", nn.BatchNorm2d(shape[1]))
        self.bottleneck, self.downsample, self.relu = bottleneck, None, nn.ReLU(inplace=True)
        if stride != 1 or inputs != outputs:
            shortcut = convolution(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs)
            self.downsample = nn.Sequential(*shortcut)
        nn.init.zeros_(self.bn3.weight if bottleneck else self.bn2.weight)  # Goyal et al. 2017

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        if self.bottleneck:
            out = self.bn3(self.conv3(self.relu(out)))
        return self.relu(out + (x if self.downsample is None else self.downsample(x)))


def convolution(inputs: int, outputs: int, size: int, stride: int) -> nn.Conv2d:
    conv = nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False)
    nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
    return conv


class ResNet(nn.Module):  # type: ignore[misc]  # as above
    def __init__(self, name: str, classes: int) -> None:
        super().__init__()
        large = name == "resnet50"
        stages = ((64, 3), (128, 4), (256, 6), (512, 3)) if large else ((16, 3), (32, 3), (64, 3))
        inputs = stages[0][0]
        self.conv1 = convolution(3, inputs, 7, 2) if large else convolution(3, inputs, 3, 1)
        self.bn1, self.relu = nn.BatchNorm2d(inputs), nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, padding=1) if large else nn.Identity()
        self.stages = []
        for stage, (width, depth) in enumerate(stages, 1):
            blocks = []
            for number in range(depth):
                stride = 2 if stage > 1 and number == 0 else 1
                blocks.append(Block(inputs, width, stride, bottleneck=large))
                inputs = 4 * width if large else width
            self.add_module(f"layer{stage}", nn.Sequential(*blocks))
            self.stages.append(f"layer{stage}")
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return logits (count, classes) of images (count, 3, size, size)."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        for stage in self.stages:
            x = getattr(self, stage)(x)
        return self.fc(functional.adaptive_avg_pool2d(x, 1).flatten(1))


class ChannelsLast:
    """Lets Horovod exchange weights in channels_last: as a view whose memory is contiguous."""

    def __init__(self, compression: Any) -> None:
        self.compression = compression

    def compress(self, tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        tensor, context = self.compression.compress(tensor)
        strided = not tensor.is_contiguous()
        return tensor.permute(0, 2, 3, 1) if strided else tensor, (strided, context)

    def decompress(self, tensor: torch.Tensor, context: Any) -> torch.Tensor:
        strided, inner = context
        return self.compression.decompress(tensor.permute(0, 3, 1, 2) if strided else tensor, inner)


def check(args: Namespace) -> Namespace:
    """Return complete settings. Raises `UserError` for what does not go together."""
    cifar = args.model == "resnet20"
    if cifar and args.image_size:
        raise UserError("--image-size is for resnet50: CIFAR-10 has 32 x 32 pixels")
    if not (args.data or args.synthetic):
        kind = "CIFAR-10" if cifar else "an ImageNet folder"
        raise UserError(f"{args.model} needs data: --data DIR with {kind}, or --synthetic")
    if args.exchange == "ddp" and (args.adasum or args.timeline):
        raise UserError("--adasum and --timeline are Horovod's: not with --exchange ddp")
    args.image_size = args.image_size or (32 if cifar else 224)
    if args.synthetic:
        args.checkpoint_every = args.checkpoint_every or sys.maxsize  # only at the end
    return args


def load(args: Namespace, world: Ranks) -> images.ImageSet | None:
    if args.synthetic:
        return None
    if args.model == "resnet20":
        return ranks.together(world, lambda: images.load_cifar10(args.data, args.seed))
    found = ranks.together(  # Horovod: one rank lists the files, for all.
        world,
        lambda: (
            images.load_imagenet(args.data, args.image_size, args.seed) if world.rank == 0 else None
        ),
    )
    return world.broadcast(found)


def learning_rate(args: Namespace, size: int, epochs_done: float) -> float:
    share = epochs_done / args.epochs
    decay = {
        "constant": 1.0,
        "step": 0.1 ** sum(share >= place for place in (30 / 90, 60 / 90, 80 / 90)),
        "cosine": 0.5 * (1 + math.cos(math.pi * share)),
    }
    return ranks.learning_rate(args, size, epochs_done) * decay[args.schedule]


def distribute(
    args: Namespace, world: Ranks, model: nn.Module, optimizer: torch.optim.Optimizer
) -> tuple[nn.Module, torch.optim.Optimizer]:
    """Return model and optimizer that average the gradients over all ranks."""
    if world.size == 1:
        return model, optimizer
    if EXCHANGE == "ddp":
        # DDP: all ranks start from the weights of rank 0; backward() averages the gradients.
        parallel = DistributedDataParallel(
            model,
            device_ids=[torch.cuda.current_device()] if next(model.parameters()).is_cuda else None,
            broadcast_buffers=False,
            gradient_as_bucket_view=True,
        )
        if args.fp16_allreduce:
            parallel.register_comm_hook(None, default_hooks.fp16_compress_hook)
        return parallel, optimizer
    # Horovod: step() first averages the gradients over all ranks.
    compression = hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none
    return model, hvd.DistributedOptimizer(
        optimizer,
        named_parameters=model.named_parameters(),
        op=hvd.Adasum if args.adasum else hvd.Average,
        compression=ChannelsLast(compression),
        backward_passes_per_step=args.batches_per_allreduce,
    )


class State(run_torch.State):
    """A checkpoint in which all ranks have the same running statistics: the mean of theirs."""

    def pack(self, folder: Path) -> bytes:
        self.average_statistics()
        return super().pack(folder)

    def average_statistics(self) -> None:
        own = [buffer for buffer in self.model.buffers() if buffer.is_floating_point()]
        if self.ranks.size == 1:
            return
        if EXCHANGE == "horovod":  # Horovod: all of them in one exchange.
            means = hvd.grouped_allreduce(own, op=hvd.Average, name="statistics")
        else:
            means = [buffer / self.ranks.size for buffer in own]
            for mean in means:
                distributed.all_reduce(mean)  # DDP: their sum over all ranks, in place.
        for buffer, mean in zip(own, means):
            buffer.copy_(mean)


class Feed:
    """This rank's batches, as normalized images and labels on the device."""

    def __init__(self, args: Namespace, data: images.ImageSet | None, device: torch.device) -> None:
        self.args, self.data, self.device = args, data, device
        self.format = torch.channels_last if device.type == "cuda" else torch.contiguous_format
        if data is None:
            size, count = args.image_size, args.batch_size
            x = torch.randn(count, 3, size, size, device=device)
            y = torch.randint(10, (count,), device=device)
            self.synthetic = x.contiguous(memory_format=self.format), y
        else:
            mean, std = (torch.tensor(each, device=device) * 255 for each in (data.mean, data.std))
            self.mean, self.std = mean.view(1, 3, 1, 1), std.view(1, 3, 1, 1)
        cpus = ranks.threads(1)
        default = cpus if device.type == "cuda" else 0
        self.workers = default if args.workers is None else args.workers

    def batches(self, dataset: Any, keys: Any) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield the batches of `keys`: epochs and indices. Raises `UserError`."""
        if self.data is None:
            yield from itertools.repeat(self.synthetic)
        for pixels, labels in run_torch.prefetch(dataset, keys, self.workers, self.device):
            x = (pixels.permute(0, 3, 1, 2).float() - self.mean) / self.std
            yield x.contiguous(memory_format=self.format), labels


def main() -> None:
    # Horovod: find the other ranks.
    world = ranks.horovod(hvd) if EXCHANGE == "horovod" else run_torch.find_ranks()
    args = ranks.together(world, lambda: check(parser().parse_args()))
    ranks.together(world, lambda: ranks.check_adasum(args, world))
    # Horovod: each rank takes a GPU of its own, if there are any.
    device = ranks.together(world, lambda: run_torch.pick_device(args, world))
    data: Any = load(args, world)
    about = f"{args.model} on {data.describe() if data else 'random images, no evaluation'}"
    run = run_torch.Run(args, world, "torch_resnet", device, about)

    torch.manual_seed(args.seed)
    model = ResNet(args.model, data.classes if data else 1000)
    torch.manual_seed(args.seed + 1 + world.rank)  # random images of its own
    feed = Feed(args, data, device)
    if EXCHANGE == "horovod":  # Horovod: all ranks start from the weights of rank 0.
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    model = model.to(device, memory_format=feed.format)
    decayed = [weight for weight in model.parameters() if weight.ndim > 1]
    others = [weight for weight in model.parameters() if weight.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": args.weight_decay}, {"params": others}]
    on_gpu = device.type == "cuda"
    sgd = torch.optim.SGD(groups, lr=args.base_lr, momentum=args.momentum, fused=on_gpu)
    network, optimizer = distribute(args, world, model, sgd)

    def sum_of_losses(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with run_torch.autocast(args, device):
            smoothing = args.label_smoothing
            return functional.cross_entropy(
                network(x), y, reduction="sum", label_smoothing=smoothing
            )

    forward = torch.compile(sum_of_losses) if args.compile else sum_of_losses
    state = State(world, model, optimizer)

    def evaluate() -> list[float]:
        state.average_statistics()
        share = run.test_parts(len(data.test), args.batch_size)
        stream = feed.batches(data.test, [(0, part) for part in share])
        return run.evaluate(model, share, lambda part: predict(model, *next(stream)))

    steps = STEPS[device.type] * args.batch_size * args.batches_per_allreduce * world.size
    # A short last step is left out: the mean over one image, or none, is no mean.
    run.begin(len(data.train) if data else steps, state, drop_last=True)
    stream = feed.batches(data and data.train, run.keys())
    blank = torch.zeros(2, 3, args.image_size, args.image_size, device=device)
    for _ in run.epochs():
        for batch in run.batches():  # Horovod: this rank's images of a step.
            run.rate = learning_rate(args, world.size, run.epochs_done)
            for group in optimizer.param_groups:
                group["lr"] = run.rate
            optimizer.zero_grad()
            losses = torch.zeros((), device=device)
            for number, _ in enumerate(batch.parts, 1):
                x, y = run.read(lambda: next(stream), (blank, blank[:, 0, 0, 0].long()))
                last = number == len(batch.parts) or not hasattr(network, "no_sync")
                with contextlib.nullcontext() if last else network.no_sync():
                    loss = forward(x, y)
                    (loss * (1 / batch.own if args.adasum else batch.weight)).backward()
                losses += loss.detach()
            optimizer.step()  # Horovod: with the mean gradients of all ranks.
            run.step_done(losses)
        run.epoch_done(evaluate if data else None)
    flops = FLOPS * (args.image_size / 224) ** 2
    known = run.utilization(flops) if args.model == "resnet50" else {}
    run.finish(run_torch.arrays(model.parameters()), exchange=EXCHANGE, **known)


def predict(
    model: nn.Module, x: torch.Tensor, y: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    return model(x), y


if __name__ == "__main__":
    main()
