"""The trainer of a launch that names none: a packaged one that ends within minutes."""

from __future__ import annotations

from dataclasses import replace

from ..core.errors import Refused
from ..core.model import ImageInfo
from ..core.plan import Plan
from ..core.remedy import change
from ..core.trainer import Framework

ABOUT = "a test of a minute; name another or a file"
WITH_DEFAULTS, RATE, EPOCHS = 4, 0.05, 16  # ranks; --base-lr and --epochs of the trainers
SAMPLES = 1437  # of the digits that they train with
LARGEST_BATCH, LEAST_STEPS = 128, 100
TRAINERS = {Framework.PYTORCH: "torch_mnist", Framework.TENSORFLOW: "tf_mnist"}


def of(image: ImageInfo) -> str:
    """Return the packaged trainer for the framework of an image, PyTorch's where it has both.

    Of an image that nobody has looked into yet it is PyTorch's. Raises Refused for an image that
    has neither framework.
    """
    for framework, name in TRAINERS.items():
        if _has(image, framework):
            return name
    evidence = "; ".join(image.how(f"{framework.package}.version") for framework in TRAINERS)
    raise Refused(
        f"no trainer given, and {image.path.name} has neither PyTorch nor TensorFlow",
        evidence,
        change(trainer=("hostname",)),
        id="framework-for-default-missing",
    )


def _has(image: ImageInfo, framework: Framework) -> bool:
    known = image.listed("horovod.frameworks")
    there = image.fact(f"{framework.package}.version") != "none"
    return there and (not known or framework in known)


def fitted(made: Plan) -> Plan:
    """Return the plan of the default trainer with arguments for its number of ranks."""
    trainer = replace(made.spec.trainer, args=arguments(made.resources.tasks))
    return replace(made, spec=replace(made.spec, trainer=trainer))


def arguments(ranks: int) -> tuple[str, ...]:
    """Return the arguments for that many ranks; for few its own defaults.

    The trainers' learning rate grows with the ranks. Of so few samples that ends in chance from 16
    ranks on, and in no number from hundreds on: here the batch of a step stays small, and the rate
    that of four ranks. With one sample a rank the epochs become shorter than that, and are more.
    """
    if ranks <= WITH_DEFAULTS:
        return ()
    batch = max(1, LARGEST_BATCH // ranks)
    steps = -(-SAMPLES // (batch * ranks))
    epochs = max(EPOCHS, -(-LEAST_STEPS // steps))
    return (
        *("--epochs", str(epochs), "--batch-size", str(batch)),
        *("--base-lr", f"{RATE * WITH_DEFAULTS / ranks:.2g}"),
    )
