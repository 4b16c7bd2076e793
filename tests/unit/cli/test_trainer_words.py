"""Options of the trainer that were typed among those of the command."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from runners.cli import COMMANDS, MEANT, cli
from runners.core.errors import UsageError
from runners.settings import trainers

from .. import sentences


def remedy(*words: str) -> list[str]:
    """What is offered instead of these words."""
    with sentences.raises("option-unknown") as caught:
        cli.main(words, prog_name="runner", standalone_mode=False)
    return list(map(str, caught.value.remedies))


@pytest.mark.parametrize("command", ["launch", "plan", "scale"])
def test_they_are_offered_after_two_dashes(command: str) -> None:
    assert remedy(command, "--nodes", "2", "my trainer.py", "--epochs", "1") == [
        f"runner {command} --nodes 2 'my trainer.py' -- --epochs 1"
    ]


def test_without_a_trainer_nothing_far_is_guessed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["launch", "--image", "a.sif", "--epochs", "2"], prog_name="runner")
    assert caught.value.code == 2
    told = capsys.readouterr().err
    assert "--epochs" in told
    assert "--qos" not in told


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["mpirun", "python", "train.py", "--lr", "1"], "train.py -- --lr 1"),
        (["horovodrun", "-np", "2", "a b.py"], "'a b.py'"),
    ],
)
def test_what_starts_ranks_elsewhere(typed: list[str], offered: str) -> None:
    with pytest.raises(UsageError) as caught:
        cli.main(["launch", "-N", "2", "--", *typed], prog_name="runner", standalone_mode=False)
    # What else is wrong, which the sentence tells too, depends on the machine.
    assert caught.value.diagnosis.id == "trainer-is-starter"
    assert str(caught.value.remedies[0]).startswith(f"runner launch --nodes 2 {offered}  # ")


@pytest.fixture
def folder(here: Path) -> Path:
    """A current folder with a user's files."""
    for name in ("train.py", "train.sh", "run"):
        (here / name).write_text("#!/bin/sh\n")
    (here / "run").chmod(0o755)
    return here


@pytest.mark.parametrize(
    ("typed", "command", "file"),
    [
        (["python", "train.py", "--lr", "1"], ["{}/train.py", "--lr", "1"], "train.py"),
        (["python3.11", "train.py"], ["{}/train.py"], "train.py"),
        (["-m", "pkg.train", "a b"], ["python3", "-m", "pkg.train", "a b"], None),
        (["python", "-m", "pkg.train"], ["python", "-m", "pkg.train"], None),
        (["python", "-u", "train.py"], ["python", "-u", "train.py"], "train.py"),
        (["bash", "train.sh", "$x;"], ["bash", "train.sh", "$x;"], "train.sh"),
        (["./run", "x"], ["{}/run", "x"], "run"),
        (["torchrun", "--nnodes", "2", "train.py"], None, "train.py"),
        (["/opt/app/bin/train"], ["/opt/app/bin/train"], None),
    ],
)
def test_a_trainer_may_be_any_program(
    folder: Path, typed: list[str], command: list[str] | None, file: str | None
) -> None:
    found, preset = trainers.find(typed[0], tuple(typed[1:]))
    expected = typed if command is None else [word.format(folder) for word in command]
    assert [*found.command] == expected
    assert found.file == (file and folder / file)
    assert preset is None


def test_a_program_that_cannot_run_is_refused_with_the_command_that_can(folder: Path) -> None:
    with sentences.raises("trainer-not-executable") as caught:
        trainers.find("./train.sh", ("1",))
    assert caught.value.remedies[0].trainer == ("bash", "./train.sh", "1")
    with sentences.raises("trainer-not-found"):
        trainers.find("./tran.sh", ())
    with sentences.raises("recipe-unknown"):
        trainers.find("only-in-the-image", ())


def refused(*words: str) -> UsageError:
    with pytest.raises(UsageError) as caught:
        cli.main(words, prog_name="runner", standalone_mode=False)
    return caught.value


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["launch", "t.py", "--no-wait", "-N", "2"], "runner launch t.py -N 2"),
        (["launch", "", "--nodes", "2"], "runner launch --nodes 2"),
        (["launch", "--", "--epochs", "1"], "runner launch torch_mnist -- --epochs 1"),
        (["launch", "t.py", "-c", "x", "--", "y"], "runner launch t.py -- -c x y"),
    ],
)
def test_each_mistake_is_met_before_anything_is_planned(typed: list[str], offered: str) -> None:
    (first,) = refused(*typed).remedies
    assert str(first) == offered


def test_an_empty_word_after_a_program_is_its_argument() -> None:
    """As "$1" of a script gives, where it got none: the words are right, the site is not."""
    error = refused("launch", "--site", "no-such-site", "bash", "")
    assert error.diagnosis.id == "site-unknown"


def test_a_wrong_value_before_the_trainer_is_the_commands() -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["launch", "-c", "x", "bash"], prog_name="runner")
    assert caught.value.code == 2


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("submit", "launch"),
        ("run", "launch"),
        ("train", "launch"),
        ("stop", "cancel"),
        ("tail", "logs"),
        ("ls", "list"),
        ("lanch", "launch"),
    ],
)
def test_a_guessed_command_is_known_by_its_meaning(typed: str, meant: str) -> None:
    with pytest.raises(click.UsageError, match=f"did you mean {meant}\\?"):
        cli.main([typed], prog_name="runner", standalone_mode=False)


def test_the_words_that_are_guessed_name_commands_of_ours() -> None:
    for name, words in MEANT.items():
        assert name.split()[0] in COMMANDS
        assert not set(words) & set(COMMANDS)
