"""Words of the trainer among those of the command: its arguments belong after `--`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ..core.errors import UsageError
from ..core.remedy import command

AFTER = "the trainer stands before --, its own arguments after it"
EXAMPLE = "torch_mnist"


def check(of: click.Command, ctx: click.Context, words: Sequence[str]) -> None:
    """Raise UsageError for arguments without a trainer, or a program's own options without `--`."""
    trainer = ctx.params.get("trainer")
    if trainer is None:
        return
    if not trainer:
        typed = [*ctx.command_path.split(), *words]
        typed.remove("")
        raise UsageError(
            "the trainer is an empty word",
            "a variable in quotes that is not set? Without any word a launch is a short test",
            command(*typed),
            id="trainer-empty",
        )
    if "--" in words:
        _check_left_out(of, ctx, words, trainer)
    else:
        _check_programs_own(of, ctx, words, trainer)


def _check_left_out(
    of: click.Command, ctx: click.Context, words: Sequence[str], trainer: str
) -> None:
    """Refuse `-- --epochs 5` without a trainer before it; `-- PROGRAM` or `-- -m MODULE` is one."""
    end = words.index("--")
    if trainer[0] != "-" or trainer == "-m" or _place(of, ctx, words[:end]) is not None:
        return
    typed = ctx.command_path.split()
    raise UsageError(
        f"no trainer before -- {trainer}",
        AFTER,
        command(*typed, *words[:end], EXAMPLE, *words[end:]),
        id="no-trainer-before-dashes",
    )


def _check_programs_own(
    of: click.Command, ctx: click.Context, words: Sequence[str], trainer: str
) -> None:
    """Refuse a short option right after a program such as bash or python3: `python3 -m pkg`."""
    from ..settings import trainers

    place = _place(of, ctx, words)
    if place is None or not trainers.IN_IMAGES.fullmatch(trainer):
        return
    after = words[place + 1 : place + 2]
    if after and after[0][:1] == "-" and after[0][:2] != "--":
        typed, rest = ctx.command_path.split(), words[place + 1 :]
        raise UsageError(
            f"{after[0]} after {trainer} is taken for {typed[-1]}'s own option",
            AFTER,
            [
                command(*typed, *words[: place + 1], "--", *rest),
                command(*typed, *words[:place], *rest, trainer),
            ],
            id="option-after-trainer",
        )


def check_value(
    of: click.Command, ctx: click.Context, words: Sequence[str], error: click.BadParameter
) -> None:
    """Raise UsageError for a value of an option after the trainer, which may be the trainer's."""
    end = words.index("--") if "--" in words else len(words)
    place = _place(of, ctx, words[:end])
    names = error.param.opts if error.param else []
    after = words[place + 1 : end] if place is not None else []
    option = next((word for word in after if word.partition("=")[0] in names), "")
    if place is None or not option:
        return
    rest = [*after, *words[end + 1 :]]
    raise UsageError(
        f"{option} after {words[place]} is taken for {ctx.info_name}'s own option, "
        f"but {error.message.rstrip('.')}",
        AFTER,
        command(*ctx.command_path.split(), *words[: place + 1], "--", *rest),
        id="option-of-runner-and-trainer",
    )


def _place(of: click.Command, ctx: click.Context, words: Sequence[str]) -> int | None:
    """Return where the trainer stands among the words of the command, None for nowhere."""
    options = {word: option for option in of.get_params(ctx) for word in option.opts}
    is_value = False
    for place, word in enumerate(words):
        if not (is_value or word.startswith("-")):
            return place
        is_value = not is_value and word in options and takes_a_value(options[word])
    return None


def takes_a_value(option: click.Parameter) -> bool:
    return isinstance(option, click.Option) and not (option.is_flag or option.count)
