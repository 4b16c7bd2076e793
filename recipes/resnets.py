"""What the ResNet trainers of all frameworks share: their options, and the pictures.

`resnet50` and `resnet18` are ImageNet's networks, `resnet110` and `resnet20` CIFAR-10's (He et al.
2015, arXiv:1512.03385).
"""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import Any

from recipes import cifar, common, imagenet, pictures
from recipes.common import UserError
from recipes.pictures import PictureSet

IMAGENET, CIFAR = ("resnet50", "resnet18"), ("resnet110", "resnet20")
EPOCHS = 90
# With --synthetic: an epoch is so many steps, and the first epoch warms up.
SYNTHETIC_STEPS, SYNTHETIC_EPOCHS = 10, 11


def add_options(parser: common.Parser) -> None:
    """Add the common options and those of ResNets."""
    # 0.1 for 256 samples (Goyal et al. 2017, arXiv:1706.02677) is 0.0125 for 32.
    common.add_common(parser, epochs=EPOCHS, batch_size=32, base_lr=0.0125, warmup=5)
    parser.set_defaults(epochs=None)  # see `check`
    parser.epilog = f"--epochs is {EPOCHS}, with --synthetic {SYNTHETIC_EPOCHS}."
    add = parser.add_argument
    add("--model", choices=IMAGENET + CIFAR, default="resnet50",
        help="the last two are for CIFAR-10")  # fmt: skip
    add("--synthetic", action="store_true", help="measure speed, on pictures without meaning")
    add("--image-size", type=common.positive_int, help="pixels, for ImageNet's networks (or 224)")
    add("--momentum", type=common.fraction, default=0.9, help="of the optimiser")
    add("--weight-decay", type=common.natural_float, default=1e-4, help="of all but scales, biases")
    add(
        "--label-smoothing", type=common.fraction, default=0.0, help="share spread over all classes"
    )
    add("--schedule", choices=common.SCHEDULES, default="step", help="how the rate falls")


def check(args: Namespace) -> Namespace:
    """Return complete settings. Raises `UserError` for what does not go together."""
    if args.batch_size == 1:
        raise UserError("--batch-size 1: ResNets normalise over their batch, so give at least 2")
    if args.model in CIFAR and args.image_size:
        raise UserError(f"--image-size is for {', '.join(IMAGENET)}: CIFAR-10 has 32 x 32 pixels")
    if not (args.data or args.synthetic):
        kind = "CIFAR-10" if args.model in CIFAR else "an ImageNet folder"
        raise UserError(f"{args.model} needs data: --data DIR with {kind}, or --synthetic")
    args.image_size = args.image_size or (cifar.SIZE if args.model in CIFAR else 224)
    if args.synthetic:
        args.checkpoint_every = args.checkpoint_every or sys.maxsize  # only the last one
    args.epochs = args.epochs or (SYNTHETIC_EPOCHS if args.synthetic else EPOCHS)
    return args


def load(args: Namespace, hvd: Any) -> PictureSet:
    """Open the pictures, or tell all ranks together why not. Collective."""
    if args.synthetic:
        count = SYNTHETIC_STEPS * args.batch_size * args.batches_per_allreduce * hvd.size()
        classes = cifar.CLASSES if args.model in CIFAR else 1000
        return pictures.synthetic(args.image_size, classes, count, hvd.size())
    if args.model in CIFAR:
        return common.together(hvd, lambda: cifar.load(args.data, args.seed))
    # Horovod: one rank looks into the folders, for all.
    first = hvd.rank() == 0
    found = common.together(hvd, lambda: imagenet.listing(args.data) if first else None)
    found = hvd.broadcast_object(found, root_rank=0, name="listing")
    return imagenet.pictures(found, args.image_size, args.seed)


def shares(args: Namespace, hvd: Any, count: int) -> common.Shards:
    """Deal the training pictures to the ranks, in whole steps. Raises `UserError` for too few.

    A short last step is left out: a rank's mean over one picture, or none, is no mean.
    """
    return common.deal_whole_steps(args, hvd, count, "pictures")


def rate(args: Namespace, hvd: Any, progress: float) -> float:
    """Return the learning rate after `progress` epochs."""
    # Horovod: it grows with the number of ranks, after a warm-up, and falls towards the end.
    reached = common.learning_rate(args, hvd.size(), progress)
    return reached * common.decay(args.schedule, progress / args.epochs)


def tell_speed(args: Namespace, run: common.Run, size: int) -> dict[str, Any]:
    """Print the speed that `--synthetic` has measured; return it for result.json."""
    if not args.synthetic:
        return {}
    found = common.benchmark(run.epochs, size)
    if found["ci95"] is not None:
        for who, end in (("each rank", "_per_rank"), (f"all {size} ranks", "")):
            mean, half = found[f"samples_per_s{end}"], found[f"ci95{end}"]
            run.say(f"{who}: {mean:.1f} +- {half:.1f} images/s (95 % confidence)")
    return {"benchmark": found}
