"""Words of the trainer among those of the command: its arguments belong after `--`. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ..core.errors import UsageError
from ..core.remedy import command
from . import trainers

AFTER = "the trainer stands before --, its own arguments after it"
EXAMPLE = "torch_mnist"
CLOSE = 0.75  # --epochs is near none of ours, --nodse is


@dataclass(frozen=True)
class TypedWords:
    """What was typed for a command that takes a trainer.

    `command` is its name, such as `runner launch`, and `words` is what follows. `options` says of
    each word for one of its own options whether a value comes after it.
    """

    command: tuple[str, ...]
    words: tuple[str, ...]
    options: Mapping[str, bool]

    @property
    def end(self) -> int:
        """Where the command's own words end: at `--`."""
        return self.words.index("--") if "--" in self.words else len(self.words)

    @property
    def trainers_place(self) -> int | None:
        """Where the trainer stands among the command's own words; None for nowhere."""
        is_value = False
        for place, word in enumerate(self.words[: self.end]):
            if not (is_value or word.startswith("-")):
                return place
            is_value = not is_value and self.options.get(word, False)
        return None


def check(typed: TypedWords, trainer: str | None) -> None:
    """Raise UsageError for arguments without a trainer, or a program's own options without `--`."""
    if trainer is None:
        return
    if not trainer:
        words = [*typed.command, *typed.words]
        words.remove("")
        raise UsageError(
            "the trainer is an empty word",
            "a variable in quotes that is not set? Without any word a launch is a short test",
            command(*words),
            id="trainer-empty",
        )
    if "--" in typed.words:
        _check_left_out(typed, trainer)
    else:
        _check_programs_own(typed, trainer)


def _check_left_out(typed: TypedWords, trainer: str) -> None:
    """Refuse `-- --epochs 5` without a trainer before it; `-- PROGRAM` or `-- -m MODULE` is one."""
    if trainer[0] != "-" or trainer == "-m" or typed.trainers_place is not None:
        return
    raise UsageError(
        f"no trainer before -- {trainer}",
        AFTER,
        command(*typed.command, *typed.words[: typed.end], EXAMPLE, *typed.words[typed.end :]),
        id="no-trainer-before-dashes",
    )


def _check_programs_own(typed: TypedWords, trainer: str) -> None:
    """Refuse a short option right after a program such as bash or python3: `python3 -m pkg`."""
    place = typed.trainers_place
    if place is None or not trainers.IN_IMAGES.fullmatch(trainer):
        return
    before, rest = typed.words[:place], typed.words[place + 1 :]
    if rest and rest[0][:1] == "-" and rest[0][:2] != "--":
        raise UsageError(
            f"{rest[0]} after {trainer} is taken for {typed.command[-1]}'s own option",
            AFTER,
            [
                command(*typed.command, *before, typed.words[place], "--", *rest),
                command(*typed.command, *before, *rest, trainer),
            ],
            id="option-after-trainer",
        )


def check_value(typed: TypedWords, names: Collection[str], problem: str) -> None:
    """Raise UsageError where an option with a bad value stands after the trainer, and may be its.

    `names` are the option's, and `problem` says what is wrong with its value.
    """
    place, end = typed.trainers_place, typed.end
    after = typed.words[place + 1 : end] if place is not None else ()
    option = next((word for word in after if word.partition("=")[0] in names), "")
    if place is None or not option:
        return
    rest = [*after, *typed.words[end + 1 :]]
    raise UsageError(
        f"{option} after {typed.words[place]} is taken for {typed.command[-1]}'s own option, "
        f"but {problem.rstrip('.')}",
        AFTER,
        command(*typed.command, *typed.words[: place + 1], "--", *rest),
        id="option-of-runner-and-trainer",
    )


def check_option(typed: TypedWords, option: str) -> None:
    """Raise UsageError for an option that the command has not: the trainer's, or mistyped.

    Without a trainer among the words nothing is raised.
    """
    _check_negation(typed, option)
    if offers := _offers(typed, option):
        raise UsageError(
            f"{' '.join(typed.command)} has no option {option}",
            "the trainer's own arguments come after --",
            [command(*typed.command, *offer) for offer in offers],
            id="option-unknown",
        )


def meant(typed: TypedWords, option: str) -> list[str]:
    """Return the command's option that is nearest to one that it has not, or none."""
    import difflib  # for a mistake only

    return difflib.get_close_matches(option, typed.options, 1, CLOSE)


def _check_negation(typed: TypedWords, option: str) -> None:
    """Raise UsageError for `--no-follow`: what has no such form is off unless it is given."""
    positive = option.replace("--no-", "--", 1)
    if option.startswith("--no-") and positive in typed.options:
        rest = [word for word in typed.words if word not in (option, positive)]
        raise UsageError(
            f"{' '.join(typed.command)} has no option {option}",
            f"leave it out: without {positive} that is so",
            command(*typed.command, *rest),
            id="option-not-negated",
        )


def _offers(typed: TypedWords, option: str) -> list[list[str]]:
    """Return the words with the option that was meant, and with `--`; none without a trainer."""
    words = typed.words
    of_runner, theirs = _split(typed)
    if of_runner is None:
        return []
    at = next(place for place, word in enumerate(words) if _is(word, option))
    fixed = [
        [*words[:at], words[at].replace(option, name, 1), *words[at + 1 :]]
        for name in meant(typed, option)
    ]
    return [*fixed, [*of_runner, "--", *theirs, *words[typed.end + 1 :]]]


def _is(word: str, option: str) -> bool:
    return word == option or word.startswith(f"{option}=" if option.startswith("--") else option)


def _split(typed: TypedWords) -> tuple[list[str] | None, list[str]]:
    """Return the words of the command, None if no trainer is among them, and the trainer's."""
    of_runner: list[str] = []
    theirs: list[str] = []
    trainer, left = False, list(typed.words[: typed.end])
    while left:
        word = left.pop(0)
        forms = (word.partition("=")[0], word[:2])  # -N2
        if word.startswith("-") and any(form in typed.options for form in forms):
            of_runner.append(word)
            of_runner += [left.pop(0)] if left and typed.options.get(word) else []
        elif word.startswith("-"):
            theirs.append(word)
            value = left and not trainer and "=" not in word and not left[0].startswith("-")
            theirs += [left.pop(0)] if value and not trainers.is_one(left[0]) else []
        else:
            (theirs if trainer else of_runner).append(word)
            trainer = True
    return (of_runner if trainer else None), theirs
