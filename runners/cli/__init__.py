"""The command line: each command reads its options, makes one call and prints the result."""

from __future__ import annotations

import importlib
import sys
import warnings
from typing import TYPE_CHECKING, Any, cast

import click

from ..core import command_signals
from ..core.version import __version__

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# Heading -> command -> short help. Kept as data so that `runner --help` imports none of them.
# Add-ons (addons.py) bring more.
GROUPS = {
    "Train": {
        "launch": "Run a trainer on N ranks, in a container.",
        "plan": "Show how a launch would be configured, and why.",
        "recipes": "List the packaged trainers; show or copy one.",
        "data": "Download, pack and generate datasets.",
    },
    "Runs": {
        "status": "Show the state of a job.",
        "list": "List the runs.",
        "logs": "Show a job's log.",
        "explain": "Diagnose a failed job and suggest a fix.",
        "wait": "Wait for a job to end; exit with its exit code.",
        "cancel": "Cancel a job.",
        "result": "Show a run's final metrics.",
        "compare": "Compare the settings and results of runs.",
        "scale": "Run a scaling study; write tables and a drawing.",
    },
    "Interactive": {
        "shell": "Open a shell in an image on an allocated node.",
        "exec": "Run a command in the container of a running job.",
        "jupyter": "Start JupyterLab on a node, protected by a token.",
        "tensorboard": "Start TensorBoard for one or more runs.",
    },
    "Images": {
        "build": "Build an image without root.",
        "pull": "Pull an image and store it by its digest.",
        "push": "Push an image to a registry.",
        "images": "List the stored images; remove unused ones.",
        "inspect": "Show an image's metadata.",
        "verify": "Verify an image: signature, digest, contents, two ranks.",
    },
    "This machine": {
        "doctor": "Check this machine, an image and a short job.",
        "sites": "List the known sites; write a profile for this one.",
        "config": "Show the effective settings; trust a folder's files.",
    },
}
# Command -> folder, named after its heading's last word, in which it has a module of its name
COMMANDS = {
    name: heading.split()[-1].lower() for heading, group in GROUPS.items() for name in group
}
# Commands that can have a job that goes on without them.
HAVE_JOBS = (
    *("launch", "status", "list", "logs", "wait", "cancel", "result"),
    *("jupyter", "tensorboard"),
)


# Commands of other programs, and of earlier guides, with ours that do the same.
MEANT = {
    "launch": ("submit", "run", "train", "start", "sbatch", "srun", "horovodrun", "mpirun"),
    "list": ("ls", "ps", "jobs", "runs", "queue", "squeue"),
    "logs": ("log", "tail", "output", "cat", "follow"),
    "cancel": ("stop", "kill", "scancel", "abort", "delete"),
    "status": ("state", "info", "show", "sacct"),
    "result": ("results", "metrics"),
    "shell": ("bash", "salloc", "interactive"),
    "jupyter": ("notebook", "lab", "jupyterlab"),
    "doctor": ("check", "test", "diagnose"),
    "scale": ("bench", "benchmark", "scaling"),
    "images prune": ("rmi", "prune"),
}


class LazyGroup(click.Group):
    """A group that imports the module of a command only when that command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        from . import addons

        return [*COMMANDS, *addons.installed(COMMANDS)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return _addons_command(ctx, cmd_name)
        module = importlib.import_module(f".{COMMANDS[cmd_name]}.{cmd_name}", __name__)
        return cast(click.Command, getattr(module, f"{cmd_name.replace('-', '_')}_command"))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggest similar names for a command that does not exist."""
        name, *rest = args
        command = None if name.startswith("-") else self.get_command(ctx, name)
        if command:
            return name, command, rest
        if ctx.resilient_parsing or name.startswith("-"):
            return super().resolve_command(ctx, args)
        raise click.UsageError(f"no command {name!r}; {_meant(name)}")

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete a command name without importing any command."""
        from click.shell_completion import CompletionItem

        groups = (*GROUPS.values(), _addon_helps())
        helps = {name: help for group in groups for name, help in group.items()}
        fits = [name for name in helps if name.startswith(incomplete)]
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [*(CompletionItem(name, help=helps[name]) for name in fits), *options]

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; Ctrl-C ends it, not the job, with the shell's own code for that."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            has_job = ctx.invoked_subcommand in HAVE_JOBS
            goes_on = "a job that was submitted goes on" if has_job else ""
            words = getattr(interrupt, "words", "") or goes_on
            click.echo("; ".join(filter(None, ("\nrunner: interrupted", words))), err=True)
            ctx.exit(command_signals.code(interrupt))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands under their headings, with aligned columns."""
        groups = {**GROUPS, "Add-ons": _addon_helps()}
        width = max(len(name) for group in groups.values() for name in group)
        for heading, group in groups.items():
            if group:
                with formatter.section(heading):
                    formatter.write_dl([(f"{name:{width}}", help) for name, help in group.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: runner launch --image horovod_cpu.sif --nodes 2 torch_mnist -- --epochs 5",
)
@click.version_option(__version__, prog_name="runner")
def cli() -> None:
    """Run Horovod training in Apptainer images on Slurm clusters."""


# What knows add-ons is imported where they are asked for: a command of the kit costs nothing more.


def _addons_command(ctx: click.Context, name: str) -> click.Command | None:
    from ..core.errors import RunnerError
    from . import addons

    try:
        return addons.command_named(name, COMMANDS)
    except RunnerError:
        if ctx.resilient_parsing:  # the Tab key completes nothing, and prints nothing
            return None
        raise


def _addon_helps() -> dict[str, str]:
    from . import addons

    return {name: addon.summary for name, addon in addons.installed(COMMANDS).items()}


def _meant(word: str) -> str:
    """Return "did you mean ...?" for a word that is no command, by its meaning or its letters."""
    from ..core.errors import nearest  # for a mistake only
    from . import addons

    same = [name for name, words in MEANT.items() if word in words]
    return (
        f"did you mean {same[0]}?" if same else nearest(word, [*COMMANDS, *addons.names(COMMANDS)])
    )


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    click.echo(f"runner: warning: {message}", err=True)


def main() -> None:
    """Run the command line; turn the product's errors into a message and an exit code."""
    command_signals.listen(lambda words: click.echo(f"runner: {words}", err=True))
    warnings.showwarning = _warn
    try:
        cli.main(prog_name="runner", standalone_mode=True)
    except Exception as error:
        # Imported now, because `runner --help` needs none of it.
        from ..contract.log_text import harmless
        from ..core.errors import RunnerError

        if not isinstance(error, RunnerError):
            raise
        click.echo(f"runner: {harmless(error)}", err=True)
        sys.exit(error.exit_code)
