"""Rules about the shell: exit codes, background jobs, secrets and line ends."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...core.command_line import without_secret
from ..programs import names
from ..script import Script
from ..words import Word
from .rule import Places, rule

PLACEHOLDERS = names("your xxx < changeme ... insert todo my_ path/to key_here")
NO_SECRETS = names("TOKENIZER TOKENS KEYS TOKENIZERS_PARALLELISM PUBLIC")
WAITING = names("wait sleep tail fg exec")
BROKEN = re.compile(r"[^#]\s\\[ \t]+(#.*)?$")  # a continued line, but for the blank
GLUED = re.compile(r"[\w\"'}]\\\n\"?-")  # no blank between a word and the option of the next line


@rule("pipe-exit-code")
def pipe_exit_code(script: Script) -> Places:
    checked = "PIPESTATUS" in script.text or "pipefail" in script.text.split("\n", 1)[0]
    for step in script.steps:
        if (pipe := step.command.pipe) and not step.command.pipefail and not checked:
            yield step.line, f"{pipe[-1]} hides the trainer's exit code", "set -o pipefail above it"


@rule("background-without-wait")
def background_without_wait(script: Script) -> Places:
    commands = script.content.commands
    for step in script.steps:
        place = next(n for n, each in enumerate(commands) if each is step.command)
        waits = any(each.name in WAITING for each in commands[place + 1 :])
        goes_on = any(s.line > step.line and not s.command.background for s in script.steps)
        if step.command.background and not waits and not goes_on:
            what = "the script ends while this runs: it is killed"
            yield step.line, what, "wait, as the last line"


@rule("secret-in-script")
def secret_in_script(script: Script) -> Places:
    for line, name in _secrets(script):
        right = "export it where you submit the job, and write nothing here"
        yield line, f"{name} has its secret written down", right


def _secrets(script: Script) -> Iterator[tuple[int, str]]:
    named = [(each.line, each.name, each.value) for each in script.content.assignments]
    for step in script.steps:
        named += [(value.line, name, value) for name, value in step.env.items()]
        pairs = zip(step.program, step.program[1:])
        named += [(v.line, o.text, v) for o, v in pairs if o.text.startswith("--")]
    for command in script.commands:
        if command.name == "wandb" and [word.text for word in command.words[1:2]] == ["login"]:
            named += [(word.line, "wandb login", word) for word in command.words[2:]]
    return ((line, name) for line, name, value in named if _is_secret(name, value))


def _is_secret(name: str, value: Word) -> bool:
    text, upper = value.known or "", name.upper().strip("-").replace("-", "_")
    looks = without_secret(f"{upper}=x") == upper and not any(each in upper for each in NO_SECRETS)
    if "KEY" in upper:
        looks = any(each in upper for each in ("API", "ACCESS", "SECRET", "PRIVATE"))
    fits = len(text) >= 8 and len(text.split()) == 1 and not text.isdecimal()
    plain = not text.startswith(("/", "~", "--"))
    placed = any(each in text.lower() for each in PLACEHOLDERS)
    return fits and plain and not placed and (looks or name == "wandb login")


@rule("stray-blank")
def stray_blank(script: Script) -> Places:
    lines = script.text.split("\n")
    for command in script.content.commands:
        last = command.line + command.source.count("\n")
        if glued := GLUED.search(command.source):
            what = "no blank before the backslash: the next line goes on with this word"
            yield (
                command.line + command.source.count("\n", 0, glued.start()),
                what,
                "a blank before \\",
            )
        elif BROKEN.search(lines[last - 1]):
            what = "the command ends here: a backslash with a blank behind it continues no line"
            yield last, what, "the backslash as the last sign of the line"
        elif [word.text for word in command.arguments[:1]] == ["="] and command.name.isidentifier():
            what = f"this starts a program {command.name}, and sets no variable"
            yield command.line, what, f"{command.name}=... without blanks"


@rule("windows-line-ends")
def windows_line_ends(script: Script) -> Places:
    if script.windows:
        what = "lines end as on Windows (\\r\\n): sbatch refuses the script"
        yield script.windows, what, "sed -i 's/\\r$//' on the script"
