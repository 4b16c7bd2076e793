"""The rule about secrets that are written down in a script."""

from __future__ import annotations

from collections.abc import Iterator

from runners.core.command_line import without_secret

from ..commands import Command
from ..programs import names
from ..script import Script
from ..words import Word, literal
from .rule import Places, rule

PLACEHOLDERS = names("your xxx < changeme ... insert todo my_ path/to key_here")
NO_SECRETS = names("TOKENIZER TOKENS KEYS TOKENIZERS_PARALLELISM PUBLIC")


@rule
def secret_in_script(script: Script) -> Places:
    for line, name in _secrets(script):
        right = "export it where you submit the job, and write nothing here"
        yield line, f"{name} has its secret written down", right


def _secrets(script: Script) -> Iterator[tuple[int, str]]:
    named = [
        (assignment.line, assignment.name, assignment.value)
        for assignment in script.content.assignments
    ]
    for step in script.steps:
        named += [(value.line, name, value) for name, value in step.env.items()]
    yield from ((line, name) for line, name, value in named if _is_secret(name, value))
    for command in script.commands:
        yield from ((word.line, name) for word, name in secrets(command).items())


def secrets(command: Command) -> dict[Word, str]:
    """Return the arguments of a command that are secret, each with the name of its option."""
    login = command.text.startswith("wandb login ")
    named = [("wandb login", word, word) for word in command.words[2:] if login]
    for word, after in zip(command.words, (*command.words[1:], literal(""))):
        option, *value = word.split("=", 1)
        if option.text.startswith("--"):
            named.append((option.text, value[0], word) if value else (option.text, after, after))
    return {word: name for name, value, word in named if _is_secret(name, value)}


def _is_secret(name: str, value: Word) -> bool:
    text, upper = value.known or "", name.upper().strip("-").replace("-", "_")
    looks = without_secret(f"{upper}=x") == upper and not any(word in upper for word in NO_SECRETS)
    if "KEY" in upper:
        looks = any(word in upper for word in ("API", "ACCESS", "SECRET", "PRIVATE"))
    fits = len(text) >= 8 and len(text.split()) == 1 and not text.isdecimal()
    plain = not text.startswith(("/", "~", "--"))
    placed = any(word in text.lower() for word in PLACEHOLDERS)
    return fits and plain and not placed and (looks or name == "wandb login")
