"""The command line that runs now, as a value; the bases of commands with settings and a trainer."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import click
from click.core import ParameterSource

from ..core.command_line import FLAG, CommandLine, Given
from ..core.errors import RunnerError, UsageError
from ..core.remedy import Value, change, option_words
from ..settings.table import SETTINGS

# Of a single call: a job's record is for doing the same again, by a person.
ONCE = ("dry-run", "json", "parsable", "array", "sweep", "verbose")


class SettingsCommand(click.Command):
    """A command with settings; its errors offer the whole command, changed."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for option in self.get_params(ctx):
            record = option.get_help_record(ctx)
            if record is not None and isinstance(option, click.Option):
                groups.setdefault(getattr(option, "group", "Options"), []).append(record)
        for name in sorted(groups, key=lambda name: name != "Options"):
            with formatter.section(name):
                formatter.write_dl(groups[name])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words; raise UsageError where two names of one option have other values."""
        words = list(args)
        rest = super().parse_args(ctx, args)
        self._check_names(ctx, words[: words.index("--")] if "--" in words else words)
        return rest

    def _check_names(self, ctx: click.Context, words: list[str]) -> None:
        for option in self.get_params(ctx):
            names = [word for word in option.opts if word.startswith("--")]
            if len(names) < 2 or ctx.params.get(option.name or "") is None:
                continue
            given = {}
            for word, after in zip(words, (*words[1:], "")):
                name, equals, value = word.partition("=")
                if name in names:
                    given[name] = value if equals else after
            if len(set(given.values())) > 1:
                both = " and ".join(f"{name} {value}" for name, value in given.items())
                remedies = [change({_long(names): value}) for value in given.values()]
                from ..settings import suggest  # for a mistake only

                raise UsageError(
                    f"{both} are two names of one option, with two values",
                    remedy=list(suggest.resolved(remedies, command_line(ctx))),
                    id="option-named-twice",
                )

    def invoke(self, ctx: click.Context) -> Any:
        """Run it; remedies that change the command line become commands."""
        try:
            return super().invoke(ctx)
        except RunnerError as error:
            from ..launching import working_remedies

            working_remedies.offer(error, command_line(ctx))
            raise


def again() -> CommandLine:
    """Return the command line for a job's record, without what was meant for this call alone."""
    line = command_line()
    kept = tuple((name, value) for name, value in line.switches if name not in ONCE)
    return replace(line, switches=kept)


def command_line(ctx: click.Context | None = None) -> CommandLine:
    """Return the command line that is being run, of its settings those that were typed."""
    ctx = ctx or click.get_current_context()
    # In the order in which they were typed.
    options = [option for name in ctx.params for option in _options(ctx, name)]
    return CommandLine(
        ctx.info_name or "",
        tuple(Given(name, value, FLAG) for name, value in options if name in SETTINGS),
        tuple(option for option in options if option[0] not in SETTINGS),
        ctx.params.get("trainer") or "",
        tuple(_arguments(ctx)),
        os.getcwd(),
        tuple(sys.argv[1:]),
    )


def words(ctx: click.Context) -> list[str]:
    """Return a command as it was typed; its settings, if it has any, are among the options."""
    pairs = [pair for name in ctx.params for pair in _options(ctx, name)]
    options = [word for pair in pairs for word in option_words(*pair)]
    return [*ctx.command_path.split(), *options, *_arguments(ctx)]


def was_given(ctx: click.Context, name: str) -> bool:
    """Whether a parameter was typed, rather than left at its default."""
    return ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE


def _options(ctx: click.Context, name: str) -> Iterator[tuple[str, Value]]:
    """Yield the name, without dashes, and the value of an option; nothing if it was not typed."""
    option = next(parameter for parameter in ctx.command.params if parameter.name == name)
    if not isinstance(option, click.Option) or not was_given(ctx, name):
        return
    value, long = ctx.params[name], _long(option.opts)
    if value is False and long not in SETTINGS:  # --strong/--weak
        long, value = _long(option.secondary_opts), True
    for item in value if isinstance(value, tuple) else (value,):
        yield long, item


def _arguments(ctx: click.Context) -> Iterator[str]:
    """Yield what stands after a trainer, or in its place."""
    for parameter in ctx.command.params:
        if isinstance(parameter, click.Argument) and parameter.name and parameter.name != "trainer":
            value = ctx.params[parameter.name]
            yield from value if isinstance(value, tuple) else filter(None, [value])


def _long(words: list[str]) -> str:
    """Return an option's name, without dashes: a setting's own, not another word for it."""
    names = [word[2:] for word in words if word.startswith("--")]
    return next((name for name in names if name in SETTINGS), names[0])


class TrainerCommand(SettingsCommand):
    """Says where the trainer's arguments belong, and shows the help of a packaged one."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words; raise UsageError for an option of the trainer's before `--`."""
        from ..settings import trainer_words

        options = {
            word: isinstance(option, click.Option) and not (option.is_flag or option.count)
            for option in self.get_params(ctx)
            for word in (*option.opts, *option.secondary_opts)
        }
        typed = trainer_words.TypedWords(tuple(ctx.command_path.split()), tuple(args), options)
        try:
            rest = super().parse_args(ctx, args)
        except click.BadParameter as error:
            names = error.param.opts if error.param else []
            trainer_words.check_value(typed, names, error.message)
            raise
        except click.NoSuchOption as error:
            trainer_words.check_option(typed, error.option_name)
            meant = trainer_words.meant(typed, error.option_name)
            raise click.NoSuchOption(error.option_name, None, meant, ctx) from None
        if not ctx.resilient_parsing:
            trainer_words.check(typed, ctx.params.get("trainer"))
            _show_trainers_help(ctx)
        return rest


def _show_trainers_help(ctx: click.Context) -> None:
    """Answer --help after a packaged trainer: there is no job then."""
    name, args = ctx.params.get("trainer"), ctx.params.get("args") or ()
    if not name or {"-h", "--help"}.isdisjoint(args):
        return
    from ..settings import trainers

    if path := trainers.source(name):
        click.echo(trainers.parser(path).format_help(), nl=False)
        ctx.exit()
