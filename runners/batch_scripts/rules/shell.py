"""Rules about the shell: exit codes, background jobs, secrets and line ends."""

from __future__ import annotations

from ...core.command_line import without_secret
from ..script import Script
from ..words import Word
from .rule import Places, rule

PLACEHOLDERS = (
    "your",
    "xxx",
    "<",
    "changeme",
    "...",
    "insert",
    "todo",
    "my_",
    "path/to",
    "key_here",
)
NO_SECRETS = ("TOKENIZER", "TOKENS", "KEYS", "TOKENIZERS_PARALLELISM", "PUBLIC")


@rule("pipe-exit-code")
def pipe_exit_code(script: Script) -> Places:
    first = script.text.split("\n", 1)[0]
    checked = "PIPESTATUS" in script.text
    for step in script.steps:
        pipe = step.command.pipe
        if pipe and not step.command.pipefail and "pipefail" not in first and not checked:
            yield step.line, f"{pipe[-1]} hides the trainer's exit code", "set -o pipefail above it"


@rule("background-without-wait")
def background_without_wait(script: Script) -> Places:
    commands = script.content.commands
    for step in script.steps:
        place = next(n for n, each in enumerate(commands) if each is step.command)
        after = commands[place + 1 :]
        waits = any(each.name in ("wait", "sleep", "tail", "fg", "exec") for each in after)
        goes_on = any(s.line > step.line and not s.command.background for s in script.steps)
        if step.command.background and not waits and not goes_on:
            yield (
                step.line,
                "the script ends while this runs: Slurm kills it",
                "wait, as the last line",
            )


@rule("secret-in-script")
def secret_in_script(script: Script) -> Places:
    for assignment in script.content.assignments:
        if _is_secret(assignment.name, assignment.value):
            yield assignment.line, f"{assignment.name} has its secret written down", _KEPT
    for step in script.steps:
        for name, value in step.env.items():
            if _is_secret(name, value):
                yield value.line, f"{name} has its secret written down", _KEPT
        for option, value in zip(step.program, step.program[1:]):
            if option.text.startswith("--") and _is_secret(option.text.strip("-"), value):
                yield value.line, f"{option.text} has its secret written down", _KEPT
    for command in script.commands:
        words = command.words
        login = command.name == "wandb" and len(words) == 3 and words[1].text == "login"
        if login and _is_secret("KEY", words[2]):
            yield command.line, "wandb login has its secret written down", _KEPT


_KEPT = "export it where you submit the job, and write nothing here"


def _is_secret(name: str, value: Word) -> bool:
    text, upper = value.known or "", name.upper().replace("-", "_")
    looks = without_secret(f"{upper}=x") == upper and not any(each in upper for each in NO_SECRETS)
    if "KEY" in upper and upper != "KEY":
        looks = any(each in upper for each in ("API", "ACCESS", "SECRET", "PRIVATE"))
    if (
        not looks
        or len(text) < 8
        or len(text.split()) > 1
        or any(each in text.lower() for each in PLACEHOLDERS)
    ):
        return False
    return not text.startswith(("/", "~", "--")) and not text.isdecimal()


@rule("windows-line-ends")
def windows_line_ends(script: Script) -> Places:
    if script.windows:
        what = "lines end as on Windows (\\r\\n): sbatch refuses the script"
        yield script.windows, what, "sed -i 's/\\r$//' on the script"


RULES = (pipe_exit_code, background_without_wait, secret_in_script, windows_line_ends)
