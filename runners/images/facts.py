"""The facts of an image that a plan needs: its labels, or what is found inside, once."""

from __future__ import annotations

from dataclasses import replace
from typing import Callable

from ..core.errors import RunnerError
from ..core.model import ImageInfo
from . import digest_cache, environment, inspect


def found(image: ImageInfo, say: Callable[[str], None]) -> ImageInfo:
    """Return the image with what is inside; what went wrong is its `problem`, no error.

    `say` is told when this will take long, which is the first time for a file.
    """
    if environment.is_one(image.path):
        return _of_environment(image, say)
    if image.path.is_dir() or digest_cache.recall(image.path, "digest") is None:
        say(f"looking into {image.path.name}, which has no labels of ours")
    try:
        return replace(image, found=inspect.look(image.path))
    except RunnerError as error:
        return replace(image, problem=error.message)


def _of_environment(image: ImageInfo, say: Callable[[str], None]) -> ImageInfo:
    if not environment.known(image.path):
        say(f"looking into {image.path}")
    try:
        return replace(image, found=environment.facts(image.path))
    except RunnerError as error:
        return replace(image, problem=error.message)
