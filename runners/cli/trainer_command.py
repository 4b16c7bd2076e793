"""The base of commands that take a trainer, whose own arguments come after `--`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

from ..core.errors import UsageError
from ..core.remedy import command
from .invocation import SettingsCommand

CLOSE = 0.75  # --epochs is near none of ours, --nodse is


class TrainerCommand(SettingsCommand):
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
            import difflib  # for a mistake only

            options = self.get_params(ctx)
            known = {word: each for each in options for word in (*each.opts, *each.secondary_opts)}
            meant = difflib.get_close_matches(error.option_name, known, 1, CLOSE)
            offers = _offers(words, error.option_name, meant, known)
            if not offers:
                raise click.NoSuchOption(error.option_name, None, meant, ctx) from None
            raise UsageError(
                f"{ctx.command_path} has no option {error.option_name}",
                "the trainer's own arguments come after --",
                [command(*ctx.command_path.split(), *offer) for offer in offers],
            ) from None


def _ask_the_trainer(ctx: click.Context) -> None:
    """Answer a packaged trainer's --help, and refuse its wrong options, before there is a job."""
    name, args = ctx.params.get("trainer"), ctx.params.get("args")
    if not name or not args:
        return
    if {"-h", "--help"} & set(args):
        from ..settings import trainer_options, trainers

        path = trainers.source(name)
        if path is not None:
            click.echo(trainer_options.parser(path).format_help(), nl=False)
            ctx.exit()
    from ..launching import gather

    gather.check_arguments(name, args)


def _offers(
    words: Sequence[str], option: str, meant: Sequence[str], known: Mapping[str, click.Parameter]
) -> list[list[str]]:
    """Return the words with the option that was meant, and with `--`; none without a trainer."""
    end = words.index("--") if "--" in words else len(words)
    own, theirs = _split(words[:end], known)
    if own is None:
        return []
    at = next(place for place, word in enumerate(words) if _is(word, option))
    fixed = [[*words[:at], words[at].replace(option, one, 1), *words[at + 1 :]] for one in meant]
    return [*fixed, [*own, "--", *theirs, *words[end + 1 :]]]


def _is(word: str, option: str) -> bool:
    return word == option or word.startswith(f"{option}=" if option.startswith("--") else option)


def _split(
    words: Sequence[str], known: Mapping[str, click.Parameter]
) -> tuple[list[str] | None, list[str]]:
    """Return the words of the command, None if no trainer is among them, and the trainer's."""
    from ..settings import trainers  # only an error pays for it

    own: list[str] = []
    theirs: list[str] = []
    trainer, left = False, list(words)
    while left:
        word = left.pop(0)
        option = known.get(word.partition("=")[0]) or known.get(word[:2])  # -N2
        if word.startswith("-") and option:
            own.append(word)
            own += [left.pop(0)] if word in known and left and _takes_a_value(option) else []
        elif word.startswith("-"):
            theirs.append(word)
            value = left and not trainer and "=" not in word and not left[0].startswith("-")
            theirs += [left.pop(0)] if value and not trainers.is_one(left[0]) else []
        else:
            (theirs if trainer else own).append(word)
            trainer = True
    return (own if trainer else None), theirs


def _takes_a_value(option: click.Parameter) -> bool:
    return isinstance(option, click.Option) and not (option.is_flag or option.count)
