"""A command line with a trainer in it, whose own arguments come after `--`."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Sequence

import click

from ..core.errors import UsageError

CLOSE = 0.75  # --epochs is near none of ours, --nodse is


class TrainerCommand(click.Command):
    """Says where the trainer's arguments belong, when one stands among the command's options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words; raise UsageError for an option of the trainer's before `--`."""
        words = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            at = _place(error.option_name, words)
            if not self._has_trainer(ctx, words[:at]):
                raise
            raise _misplaced(ctx.command_path, words, at, error) from None

    def _has_trainer(self, ctx: click.Context, words: list[str]) -> bool:
        """Whether a trainer is named among words that are all known."""
        return isinstance(self.make_parser(ctx).parse_args(words)[0].get("trainer"), str)


def _place(option: str, words: Sequence[str]) -> int:
    """Return where an option stands: by itself, with `=VALUE`, or as letters after one dash."""
    joined = f"{option}=" if option.startswith("--") else option
    return next(at for at, word in enumerate(words) if word == option or word.startswith(joined))


def _misplaced(command: str, words: list[str], at: int, error: click.NoSuchOption) -> UsageError:
    """Return the error that offers a `--` at a place, or the option that was meant there."""
    option = error.option_name
    close = difflib.get_close_matches(option, error.possibilities or (), 1, CLOSE)
    offers = [[*words[:at], words[at].replace(option, one, 1), *words[at + 1 :]] for one in close]
    rest = words[at:]
    if "--" in rest:
        rest.remove("--")
    offers.append([*words[:at], "--", *rest])
    return UsageError(
        f"{command} has no option {option}",
        "the trainer's own arguments come after --",
        "\n".join(shlex.join([*command.split(), *each]) for each in offers),
    )
