"""The command line: flags in, one call, print out."""

from __future__ import annotations

import importlib
import sys
import warnings
from typing import TYPE_CHECKING, Any, cast

import click

from .. import __version__
from ..core import signals

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# Heading -> command -> module and short help. Kept as data so that `runner --help` imports none of
# them.
GROUPS = {
    "Train": {
        "launch": ("launch", "Run a trainer on N ranks, in a container."),
        "plan": ("plan", "Show what a launch would choose, and why."),
        "recipes": ("info", "List the packaged trainers; show one's options, copy one to edit it."),
        "data": ("data", "Fetch, pack, check, make up and stage datasets."),
    },
    "Runs": {
        "status": ("status", "Show the state of a job."),
        "list": ("status", "List the runs."),
        "logs": ("logs", "Show a job's log."),
        "explain": ("explain", "Say why a job failed, and what mends it."),
        "wait": ("jobs", "Wait for a job's end and take over its exit code."),
        "cancel": ("jobs", "Cancel a job."),
        "result": ("jobs", "Show what a run reached."),
        "compare": ("compare", "Show in what runs differ, side by side."),
        "scale": ("scale", "Measure how a trainer scales; write tables, drawings and a page."),
    },
    "Interactive": {
        "shell": ("shell", "Open a shell in an image, on a node of one's own."),
        "exec": ("shell", "Run a command in a running job, in its container."),
        "jupyter": ("servers", "Start JupyterLab on a node, behind a token."),
        "tensorboard": ("servers", "Show what runs have written for TensorBoard."),
    },
    "Images": {
        "build": ("build", "Build an image, without root."),
        "convert": ("convert", "Turn a Dockerfile into a definition."),
        "pull": ("registry", "Pull an image, once, by its digest."),
        "push": ("registry", "Push an image to a registry."),
        "registry": ("registry", "Log in to a registry and out of it."),
        "images": ("images", "List the images; remove those that nothing needs."),
        "inspect": ("verify", "Show the facts of an image."),
        "verify": ("verify", "Prove an image: signature, digest, contents, two ranks."),
        "sign": ("verify", "Sign an image with a PGP key."),
        "release": ("release", "Publish images with a signed list of their digests."),
    },
    "This machine": {
        "doctor": ("doctor", "Look at this machine, an image and a short job; say what is wrong."),
        "sites": ("sites", "List the sites that are known; write a profile for this one."),
        "config": ("info", "Show the settings in force; trust a folder's."),
    },
}
COMMANDS = {name: told for group in GROUPS.values() for name, told in group.items()}
# Modules whose commands can have a job that goes on without them.
HAVE_JOBS = ("launch", "jobs", "logs", "status", "servers")


class LazyGroup(click.Group):
    """A group that imports the module of a command only when that command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f".{COMMANDS[cmd_name][0]}", __name__)
        return cast(click.Command, getattr(module, f"{cmd_name.replace('-', '_')}_command"))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Offer the nearest names for one that does not exist."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from ..core.errors import nearest

            raise click.UsageError(f"no command {args[0]!r}; {nearest(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the names that a word may become; none of the commands is imported for it."""
        from click.shell_completion import CompletionItem

        fits = [name for name in COMMANDS if name.startswith(incomplete)]
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [*(CompletionItem(name, help=COMMANDS[name][1]) for name in fits), *options]

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; Ctrl-C ends it, not the job, with the shell's own code for that."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as told:
            module = COMMANDS.get(ctx.invoked_subcommand or "", ("",))[0]
            goes_on = "a job that was submitted goes on" if module in HAVE_JOBS else ""
            words = getattr(told, "words", "") or goes_on
            click.echo("; ".join(filter(None, ("\nrunner: interrupted", words))), err=True)
            ctx.exit(signals.code(told))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands below their headings, in columns that are alike."""
        width = max(map(len, COMMANDS))
        for heading, group in GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl([(f"{name:{width}}", help) for name, (_, help) in group.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: runner launch --image horovod_cpu.sif --nodes 2 torch_mnist -- --epochs 5",
)
@click.version_option(__version__, prog_name="runner")
def cli() -> None:
    """Run Horovod training in Apptainer images on Slurm clusters."""


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    click.echo(f"runner: warning: {message}", err=True)


def main() -> None:
    """Run the command line; turn our errors into a message and an exit code."""
    signals.listen()
    warnings.showwarning = _warn
    try:
        cli.main(prog_name="runner", standalone_mode=True)
    except Exception as error:
        # Imported now, because `runner --help` needs none of it.
        from ..core.errors import RunnerError
        from . import exit_codes

        if not isinstance(error, RunnerError):
            raise
        click.echo(f"runner: {error}", err=True)
        sys.exit(exit_codes.of_error(error))
