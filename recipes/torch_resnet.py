"""Train ResNet-50 on ImageNet, ResNet-20 or -110 on CIFAR-10, with PyTorch and Horovod or DDP.

Data: with `--data DIR` (or DATA_DIR) an ImageNet folder, train/CLASS/*.JPEG and val/CLASS/*.JPEG;
with `--model resnet20` or `resnet110` CIFAR-10. With `--synthetic` random images, made once on the
device, measure the speed: result.json has it without the first epoch, and `runner scale` its
confidence interval.

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

from argparse import Namespace
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from recipes import distributed, images, options, read_ahead, results, run_torch
from recipes.distributed import Ranks
from recipes.run import Run

EXCHANGE = options.option("--exchange", "horovod")
if EXCHANGE == "horovod":
    import horovod.torch as hvd

STEPS = {"cpu": 10, "cuda": 50}  # of an epoch with --synthetic
FLOPS = 3 * 2 * 4.089e9  # ResNet-50, 224 x 224: 4.089 G multiply-adds forward, backward twice that


def parser() -> options.Parser:
    """Define the options of this trainer beside those of all."""
    parser = options.Parser("torch_resnet", "Train a ResNet on images.")
    add = parser.add_argument
    add("--exchange", choices=("horovod", "ddp"), default="horovod", help="averages the gradients")
    models = ("resnet50", "resnet20", "resnet110")
    add("--model", choices=models, default="resnet50", help="20 and 110: for CIFAR-10")
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
    parser.add_accumulation()
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
        stages = [(64, 3), (128, 4), (256, 6), (512, 3)]
        if not large:
            stages = [(width, images.CIFAR_BLOCKS[name]) for width in (16, 32, 64)]
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


def distribute(
    args: Namespace, world: Ranks, model: nn.Module, optimizer: torch.optim.Optimizer
) -> tuple[nn.Module, torch.optim.Optimizer]:
    """Return model and optimizer that average the gradients over all ranks."""
    if world.size == 1:
        return model, optimizer
    if EXCHANGE == "ddp":
        # DDP: all ranks start from the weights of rank 0; backward() averages the gradients.
        return run_torch.with_ddp(model, args.fp16_allreduce, broadcast_buffers=False), optimizer
    # Horovod: step() first averages the gradients over all ranks.
    compression = hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none
    return model, hvd.DistributedOptimizer(
        optimizer,
        named_parameters=model.named_parameters(),
        op=hvd.Adasum if args.adasum else hvd.Average,
        compression=run_torch.ChannelsLast(compression),
        backward_passes_per_step=args.batches_per_allreduce,
    )


def average_statistics(world: Ranks, model: nn.Module) -> None:
    """Give all ranks the same running statistics, for tests and checkpoints: the mean of theirs."""
    buffers = [buffer for buffer in model.buffers() if buffer.is_floating_point()]
    if world.size == 1:
        return
    if EXCHANGE == "horovod":  # Horovod: all of them in one exchange.
        means = hvd.grouped_allreduce(buffers, op=hvd.Average, name="statistics")
    else:
        means = [buffer / world.size for buffer in buffers]
        for mean in means:
            torch.distributed.all_reduce(mean)  # DDP: their sum over all ranks, in place.
    for buffer, mean in zip(buffers, means):
        buffer.copy_(mean)


def make_optimizer(args: Namespace, model: nn.Module) -> torch.optim.Optimizer:
    """Return SGD, without weight decay of biases and batch normalization."""
    decayed = [weight for weight in model.parameters() if weight.ndim > 1]
    others = [weight for weight in model.parameters() if weight.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": args.weight_decay}, {"params": others}]
    on_gpu = next(model.parameters()).is_cuda
    return torch.optim.SGD(groups, lr=args.base_lr, momentum=args.momentum, fused=on_gpu)


def loss_function(args: Namespace, device: torch.device, network: nn.Module) -> Callable[..., Any]:
    """Return what maps images and labels to the sum of their losses."""
    smoothing = args.label_smoothing

    def sum_of_losses(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with run_torch.autocast(args, device):
            logits = network(x)
            return functional.cross_entropy(logits, y, reduction="sum", label_smoothing=smoothing)

    return torch.compile(sum_of_losses) if args.compile else sum_of_losses


def evaluate(run: Run, model: nn.Module, feed: read_ahead.ImageBatches, test: Any) -> list[float]:
    """Return this rank's sum of losses, right answers and number of images."""
    average_statistics(run.ranks, model)
    share = run.test_parts(len(test), run.args.batch_size)
    stream = feed.batches(test, [(0, part) for part in share])

    def predict(part: Any) -> tuple[torch.Tensor, torch.Tensor]:
        x, labels = next(stream)
        return model(x), labels

    return run_torch.evaluate(run, model, share, predict)


def read_options(world: Ranks) -> Namespace:
    return distributed.check(images.check(parser().parse_args()), world)


def main() -> None:
    # Horovod: find the other ranks.
    world = distributed.horovod(hvd) if EXCHANGE == "horovod" else distributed.torch_ranks()
    args = distributed.together(world, lambda: read_options(world))
    # Horovod: each rank takes a GPU of its own, if there are any.
    device = distributed.together(world, lambda: run_torch.pick_device(args, world))
    data: Any = images.load(args, world)
    about = f"{args.model} on {data.describe() if data else 'random images, no evaluation'}"
    framework = run_torch.framework(device, world)
    run = Run(args, world, "torch_resnet", framework, about)

    torch.manual_seed(args.seed)
    model = ResNet(args.model, data.classes if data else 1000)
    torch.manual_seed(args.seed + 1 + world.rank)  # random images of its own
    feed = read_ahead.ImageBatches(args, data, device)
    if EXCHANGE == "horovod":  # Horovod: all ranks start from the weights of rank 0.
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    model = model.to(device, memory_format=feed.format)
    network, optimizer = distribute(args, world, model, make_optimizer(args, model))
    forward = loss_function(args, device, network)
    state = run_torch.State(
        world, model, optimizer, before_saving=lambda: average_statistics(world, model)
    )

    steps = STEPS[device.type] * args.batch_size * args.batches_per_allreduce * world.size
    # A short last step is left out: the mean over one image, or none, is no mean.
    run.begin(len(data.train) if data else steps, state, drop_last=True)
    stream = feed.batches(data and data.train, run.keys())
    blank = torch.zeros(2, 3, args.image_size, args.image_size, device=device)
    for _ in run.epochs():
        for batch in run.batches():  # Horovod: this rank's images of a step.
            rate = distributed.decayed_rate(args, world.size, run.epochs_done)
            run_torch.set_rate(run, optimizer, rate)
            optimizer.zero_grad()
            losses = torch.zeros((), device=device)
            for number, _ in enumerate(batch.parts, 1):
                x, y = run.read(lambda: next(stream), (blank, blank[:, 0, 0, 0].long()))
                with run_torch.pass_of_step(network, number == len(batch.parts)):
                    loss = forward(x, y)
                    (loss * (1 / batch.own if args.adasum else batch.weight)).backward()
                losses += loss.detach()
            optimizer.step()  # Horovod: with the mean gradients of all ranks.
            run.step_done(losses)
        run.epoch_done((lambda: evaluate(run, model, feed, data.test)) if data else None)
    large = args.model == "resnet50"
    known = results.utilization(run, FLOPS * (args.image_size / 224) ** 2) if large else {}
    run.finish(run_torch.arrays(model.parameters()), exchange=EXCHANGE, **known)


if __name__ == "__main__":
    main()
