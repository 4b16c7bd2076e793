"""Words of the trainer among those of the command: what is offered instead."""

from __future__ import annotations

import shlex

import pytest

from runners.settings import trainer_words
from runners.settings.trainer_words import TypedWords

from .. import sentences

OPTIONS = {
    "--image": True,
    "--nodes": True,
    "-N": True,
    "--cpus-per-task": True,
    "-c": True,
    "--wait": False,
    "--follow": False,
    "--dry-run": False,
    "-m": False,
    "-e": False,
}


def typed(*words: str, command: str = "launch") -> TypedWords:
    return TypedWords(("runner", command), words, OPTIONS)


def offered(option: str, *words: str) -> list[str]:
    """Return what is offered for an option that the command has not."""
    with sentences.raises("option-unknown") as caught:
        trainer_words.check_option(typed(*words), option)
    return list(map(str, caught.value.remedies))


@pytest.mark.parametrize("word", ["--lr=0.1", "-lr", "-z"])
def test_an_option_of_the_trainer_is_offered_after_two_dashes_in_every_form(word: str) -> None:
    option = word.partition("=")[0]
    assert offered(option, "t.py", word, "--", "--y") == [f"runner launch t.py -- {word} --y"]


def test_a_slip_of_the_keys_is_offered_first() -> None:
    assert offered("--nodse", "t.py", "--nodse=2", "--wait") == [
        "runner launch t.py --nodes=2 --wait",
        "runner launch t.py --wait -- --nodse=2",
    ]


def test_the_commands_own_options_stay_with_it() -> None:
    """Typed as it is offered it does what was meant: it does not submit."""
    assert offered("--epochs", "torch_mnist", "--epochs", "1", "--dry-run", "-N2") == [
        "runner launch torch_mnist --dry-run -N2 -- --epochs 1"
    ]


@pytest.mark.parametrize("value", [("5",), (), ("--lr", "0.1")])
def test_an_option_of_the_trainer_may_stand_before_it(value: tuple[str, ...]) -> None:
    assert offered("--epochs", "--image", "a.sif", "--epochs", *value, "torch_mnist") == [
        shlex.join(
            ["runner", "launch", "--image", "a.sif", "torch_mnist", "--", "--epochs", *value]
        )
    ]


def test_without_a_trainer_only_the_nearest_option_is_known() -> None:
    words = typed("--image", "a.sif", "--epochs")
    trainer_words.check_option(words, "--epochs")
    assert trainer_words.meant(words, "--epochs") == []
    assert trainer_words.meant(words, "--nodse") == ["--nodes"]


@pytest.mark.parametrize(
    ("words", "instead"),
    [
        (["--no-follow", "t.py"], "runner launch t.py"),
        (["t.py", "--no-wait", "-N", "2"], "runner launch t.py -N 2"),
    ],
)
def test_what_is_off_by_itself_is_left_out(words: list[str], instead: str) -> None:
    option = next(word for word in words if word.startswith("--no-"))
    with sentences.raises("option-not-negated", instead):
        trainer_words.check_option(typed(*words), option)


@pytest.mark.parametrize(
    ("trainer", "words", "instead"),
    [
        (
            "bash",
            ["--image", "a.sif", "--wait", "bash", "-c", "ls"],
            "runner launch --image a.sif --wait bash -- -c ls",
        ),
        ("bash", ["bash", "-c", "4"], "runner launch bash -- -c 4"),
        ("python3", ["python3", "-m", "pkg", "x"], "runner launch python3 -- -m pkg x"),
        ("sh", ["-N", "2", "sh", "-e", "job.sh"], "runner launch -N 2 sh -- -e job.sh"),
        ("--epochs", ["--", "--epochs", "1"], "runner launch torch_mnist -- --epochs 1"),
        (
            "--epochs",
            ["-N2", "--wait", "--", "--epochs", "1"],
            "runner launch -N2 --wait torch_mnist -- --epochs 1",
        ),
    ],
)
def test_arguments_come_after_two_dashes(trainer: str, words: list[str], instead: str) -> None:
    id = "no-trainer-before-dashes" if trainer == "--epochs" else "option-after-trainer"
    with sentences.raises(id, instead):
        trainer_words.check(typed(*words), trainer)


@pytest.mark.parametrize(
    ("trainer", "words"),
    [
        (None, ["--wait"]),
        ("bash", ["bash", ""]),
        ("bash", ["bash", "--", "-c", "ls"]),
        ("-m", ["-N", "2", "--", "-m", "pkg"]),
        ("train.py", ["train.py", "-c", "4"]),
    ],
)
def test_right_words_are_left_alone(trainer: str | None, words: list[str]) -> None:
    trainer_words.check(typed(*words), trainer)


def test_a_bad_value_after_the_trainer_may_be_the_trainers() -> None:
    names = ("-c", "--cpus-per-task")
    words = typed("-N", "2", "t.py", "-c", "x", "--", "y")
    with sentences.raises("option-of-runner-and-trainer", "runner launch -N 2 t.py -- -c x y"):
        trainer_words.check_value(words, names, "'x' is no number.")
    trainer_words.check_value(typed("-c", "x", "t.py"), names, "'x' is no number.")


@pytest.mark.parametrize(
    ("command", "words", "instead"),
    [
        ("launch", ["", "--nodes", "2"], "runner launch --nodes 2"),
        ("plan", ["--image", "a.sif", "--", ""], "runner plan --image a.sif --"),
    ],
)
def test_an_empty_word_is_no_trainer_and_none_left_out(
    command: str, words: list[str], instead: str
) -> None:
    """As "$TRAINER" of a script gives, where the variable is not set."""
    with sentences.raises("trainer-empty", instead):
        trainer_words.check(typed(*words, command=command), "")
