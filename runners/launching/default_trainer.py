"""The trainer of a launch that names none: a packaged one that ends within minutes."""

from __future__ import annotations

from ..core.errors import Refused
from ..core.model import ImageInfo
from ..core.remedy import change
from ..core.trainer import Framework

ABOUT = "a test of a minute; name another or a file"
TRAINERS = {Framework.PYTORCH: "torch_mnist", Framework.TENSORFLOW: "tf_mnist"}


def of(image: ImageInfo) -> str:
    """Return the packaged trainer for the framework of an image, PyTorch's where it has both.

    Of an image that nobody has looked into yet it is PyTorch's. Raises Refused for an image that
    has neither framework.
    """
    for framework, name in TRAINERS.items():
        if _has(image, framework):
            return name
    evidence = "; ".join(image.how(f"{each.package}.version") for each in TRAINERS)
    raise Refused(
        f"no trainer given, and {image.path.name} has neither PyTorch nor TensorFlow",
        evidence,
        change(trainer=("hostname",)),
    )


def _has(image: ImageInfo, framework: Framework) -> bool:
    known = image.listed("horovod.frameworks")
    there = image.fact(f"{framework.package}.version") != "none"
    return there and (not known or framework in known)
