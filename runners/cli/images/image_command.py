"""A command on an image: its errors offer the whole command, with another image."""

from __future__ import annotations

import copy
import shlex
from typing import Any

import click

from ...core.errors import RunnerError
from ...core.remedy import Remedy, shell_line
from .. import invocation


class ImageCommand(click.Command):
    """Names the image in a parameter of its own, where a launch has --image."""

    image_parameter = "image"

    def invoke(self, ctx: click.Context) -> Any:
        """Run it; remedies that name another image become commands."""
        try:
            return click.Command.invoke(self, ctx)
        except RunnerError as error:
            if ctx.params[self.image_parameter] is not None:
                remedies = (self._typed(remedy, ctx) for remedy in error.remedies)
                error.change(remedies=tuple(remedies))
            raise

    def _typed(self, remedy: Remedy, ctx: click.Context) -> Remedy:
        image = dict(remedy.options).get("image")
        if image is None:
            return remedy
        with_image = copy.copy(ctx)
        with_image.params = {**ctx.params, self.image_parameter: image}
        line = shlex.join(invocation.words(with_image))
        return shell_line(" && ".join([*_brings(str(image)), line]))


def _brings(image: str) -> list[str]:
    """Return the command that an image needs first, which is not here yet."""
    from ...images import local_image  # for a mistake only

    try:
        local_image.find(image)
    except local_image.ImageMissing as missing:
        return [*filter(None, [missing.expected.unbuilt])]
    return []
