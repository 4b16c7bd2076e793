"""What the ResNet trainers of all frameworks share: their options.

`resnet50` and `resnet18` are ImageNet's networks, `resnet110` and `resnet20` CIFAR-10's (He et al.
2015, arXiv:1512.03385). Standard library only, like `options`.
"""

from __future__ import annotations

import sys
from argparse import Namespace

from recipes import options
from recipes.errors import UserError

IMAGENET, CIFAR = ("resnet50", "resnet18"), ("resnet110", "resnet20")
IMAGENET_SIZE, CIFAR_SIZE = 224, 32  # pixels
EPOCHS = 90
# With --synthetic: an epoch is so many steps, and the first epoch warms up.
SYNTHETIC_STEPS, SYNTHETIC_EPOCHS = 10, 11


def parser(trainer: str) -> options.Parser:
    """Return the command line of a trainer."""
    parser = options.Parser(trainer, "Train a ResNet on pictures.")
    # 0.1 for 256 samples (Goyal et al. 2017, arXiv:1706.02677) is 0.0125 for 32.
    options.add_common(parser, epochs=EPOCHS, batch_size=32, base_lr=0.0125, warmup=5)
    parser.set_defaults(epochs=None)  # see `check`
    parser.epilog = f"--epochs is {EPOCHS}, with --synthetic {SYNTHETIC_EPOCHS}."
    add = parser.add_argument
    add("--model", choices=IMAGENET + CIFAR, default="resnet50",
        help="the last two are for CIFAR-10")  # fmt: skip
    add("--synthetic", action="store_true", help="measure speed, on pictures without meaning")
    add("--image-size", type=options.positive_int, help="pixels, for ImageNet's networks (or 224)")
    add("--momentum", type=options.fraction, default=0.9, help="of the optimiser")
    add("--weight-decay", type=options.natural_float, default=1e-4,
        help="of all but scales, biases")  # fmt: skip
    add("--label-smoothing", type=options.fraction, default=0.0,
        help="share spread over all classes")  # fmt: skip
    add("--schedule", choices=options.SCHEDULES, default="step", help="how the rate falls")
    return parser


def check(args: Namespace) -> Namespace:
    """Return complete settings. Raises `UserError` for what does not go together."""
    if args.batch_size == 1:
        raise UserError("--batch-size 1: ResNets normalise over their batch, so give at least 2")
    if args.model in CIFAR and args.image_size:
        raise UserError(f"--image-size is for {', '.join(IMAGENET)}: CIFAR-10 has 32 x 32 pixels")
    if not (args.data or args.synthetic):
        kind = "CIFAR-10" if args.model in CIFAR else "an ImageNet folder"
        raise UserError(f"{args.model} needs data: --data DIR with {kind}, or --synthetic")
    args.image_size = args.image_size or (CIFAR_SIZE if args.model in CIFAR else IMAGENET_SIZE)
    if args.synthetic:
        args.checkpoint_every = args.checkpoint_every or sys.maxsize  # only the last one
    args.epochs = args.epochs or (SYNTHETIC_EPOCHS if args.synthetic else EPOCHS)
    return args
