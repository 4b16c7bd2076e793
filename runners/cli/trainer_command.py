"""A command line with a trainer in it, whose own arguments come after `--`."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Sequence

import click

from ..core.errors import UsageError

CLOSE = 0.75  # --epochs is near none of ours, --nodse is


class TrainerCommand(click.Command):
    """Says where the trainer's arguments belong, and asks a packaged one whether it takes them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words; raise UsageError for an option of the trainer's before `--`."""
        words = list(args)
        try:
            rest = super().parse_args(ctx, args)
            if not ctx.resilient_parsing:
                _ask_the_trainer(ctx)
            return rest
        except click.NoSuchOption as error:
            at = _place(error.option_name, words)
            if not self._has_trainer(ctx, words[:at]):
                raise
            raise _misplaced(ctx.command_path, words, at, error) from None

    def _has_trainer(self, ctx: click.Context, words: list[str]) -> bool:
        """Whether a trainer is named among words that are all known."""
        return isinstance(self.make_parser(ctx).parse_args(words)[0].get("trainer"), str)


def _ask_the_trainer(ctx: click.Context) -> None:
    """Answer a packaged trainer's --help, and refuse its wrong options, before there is a job."""
    name, args = ctx.params.get("trainer"), ctx.params.get("args")
    if not name or not args:
        return
    if {"-h", "--help"} & set(args):
        from ..settings import trainer_options, trainers

        path = trainers.source(name)
        if path is not None:
            click.echo(trainer_options.help_text(path), nl=False)
            ctx.exit()
    check(name, args)


def check(name: str, args: Sequence[str]) -> None:
    """Raise UsageError for arguments that a packaged trainer would refuse; others are not asked."""
    from ..settings import trainer_options, trainers  # 10 ms that no other launch need pay

    path = trainers.source(name)
    if path is not None:
        trainer_options.check(path, args)


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
