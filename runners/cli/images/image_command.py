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
                typed = (self._typed(remedy, ctx) for remedy in error.remedies)
                error.change(remedies=tuple(filter(None, typed)))
            raise

    def _typed(self, remedy: Remedy, ctx: click.Context) -> Remedy | None:
        """Return what to type for a remedy; None where its image would be refused too."""
        image = dict(remedy.options).get("image")
        if image is None:
            return remedy
        from ...images import local_image  # for a mistake only

        try:
            first = local_image.brings(str(image))
        except RunnerError:
            return None
        with_image = copy.copy(ctx)
        with_image.params = {**ctx.params, self.image_parameter: image}
        line = shlex.join(invocation.words(with_image))
        return shell_line(" && ".join([*first, line]))
