"""Options of the trainer that were typed among those of the command."""

from __future__ import annotations

import pytest

from runners.cli import cli
from runners.core.errors import UsageError


def remedy(*words: str) -> list[str]:
    """What is offered instead of these words."""
    with pytest.raises(UsageError, match="has no option") as caught:
        cli.main(words, prog_name="runner", standalone_mode=False)
    return caught.value.remedy.splitlines()


@pytest.mark.parametrize("command", ["launch", "plan", "scale"])
def test_they_are_offered_after_two_dashes(command: str) -> None:
    assert remedy(command, "--nodes", "2", "my trainer.py", "--epochs", "1") == [
        f"runner {command} --nodes 2 'my trainer.py' -- --epochs 1"
    ]


@pytest.mark.parametrize("word", ["--lr=0.1", "-lr", "-z"])
def test_in_every_form(word: str) -> None:
    assert remedy("launch", "t.py", word, "--", "--y") == [f"runner launch t.py -- {word} --y"]


def test_a_slip_of_the_keys_is_offered_first() -> None:
    assert remedy("launch", "t.py", "--nodse=2", "--wait") == [
        "runner launch t.py --nodes=2 --wait",
        "runner launch t.py -- --nodse=2 --wait",
    ]


def test_without_a_trainer_before_it_nothing_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["launch", "--image", "a.sif", "--nodse", "2", "t.py"], prog_name="runner")
    assert caught.value.code == 2
    assert "--nodse" in capsys.readouterr().err
