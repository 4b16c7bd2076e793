"""The pictures and the learning rate of the ResNet trainers of all frameworks."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from recipes import cifar, common, imagenet, pictures
from recipes.formats.cifar import CLASSES
from recipes.pictures import PictureSet
from recipes.resnet_options import CIFAR, SYNTHETIC_STEPS


def load(args: Namespace, hvd: Any) -> PictureSet:
    """Open the pictures, or tell all ranks together why not. Collective."""
    if args.synthetic:
        count = SYNTHETIC_STEPS * args.batch_size * args.batches_per_allreduce * hvd.size()
        classes = CLASSES if args.model in CIFAR else 1000
        return pictures.synthetic(args.image_size, classes, count, hvd.size())
    if args.model in CIFAR:
        return common.on_all_ranks(hvd, lambda: cifar.load(args.data, args.seed))
    # Horovod: one rank looks into the folders, for all.
    found = common.on_all_ranks(
        hvd,
        lambda: imagenet.load(args.data, args.image_size, args.seed) if hvd.rank() == 0 else None,
    )
    opened: PictureSet = hvd.broadcast_object(found, root_rank=0, name="listing")
    return opened


def rate(args: Namespace, hvd: Any, progress: float) -> float:
    """Return the learning rate after `progress` epochs."""
    # Horovod: it grows with the number of ranks, after a warm-up, and falls towards the end.
    reached = common.learning_rate(args, hvd.size(), progress)
    return reached * common.decay(args.schedule, progress / args.epochs)
