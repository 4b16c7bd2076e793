"""Commands of add-ons: distributions of their own that name them by an entry point.

They are looked for when a command is none of the kit's, and for the list of commands. The list
shows each distribution's summary: an add-on is imported for its own command only.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping
from importlib.metadata import Distribution, EntryPoint, distributions
from typing import NamedTuple

import click

from ..core.errors import RunnerError, SystemFault, UsageError
from ..core.remedy import Remedy, command

GROUP = "horovod_runner.commands"
# Add-ons of this project: command -> folder in a checkout, to say how to install what is missing.
FOLDERS = {"convert": "addons/convert"}


class AddonCommand(NamedTuple):
    """A command that an installed distribution names."""

    entry_point: EntryPoint
    distribution: str  # name and version
    summary: str

    def load(self) -> click.Command:
        """Import the command. Raises SystemFault where the add-on cannot be imported."""
        try:
            loaded = self.entry_point.load()
        except RunnerError:
            raise
        except (Exception, SystemExit) as error:
            raise self._fault(f"{type(error).__name__}: {error}") from None
        if not isinstance(loaded, click.Command):
            raise self._fault(f"{self.entry_point.value} is not a click command")
        return loaded

    def _fault(self, reason: str) -> SystemFault:
        name = self.entry_point.name
        both = [_install(".", f"./{FOLDERS[name]}")] if name in FOLDERS else []
        what = f"the add-on {self.distribution}, which has the command {name!r}, cannot be loaded"
        return SystemFault(what, reason, both, id="addon-not-loaded")


def installed(kits: Mapping[str, object]) -> dict[str, AddonCommand]:
    """Return the commands of installed add-ons by name; one of the kit's names is left out."""
    found: dict[str, AddonCommand] = {}
    for addon in _named():
        name = addon.entry_point.name
        if name in kits:
            warnings.warn(
                f"the command {name!r} of {addon.distribution} is left out: runner has its own",
                stacklevel=2,
            )
        else:
            found.setdefault(name, addon)
    return dict(sorted(found.items()))


def names(kits: Mapping[str, object]) -> set[str]:
    """Return the names of all commands of add-ons, of those not installed too."""
    return {*installed(kits), *FOLDERS}


def command_named(name: str, kits: Mapping[str, object]) -> click.Command | None:
    """Return an add-on's command, None where nothing has this name.

    Raises UsageError where an add-on of this project has it that is not installed.
    """
    addon = installed(kits).get(name)
    if addon is None and name in FOLDERS:
        raise UsageError(
            f"the command {name!r} is an add-on, which is not installed",
            f"a checkout of horovod-runner has it in {FOLDERS[name]}; in the checkout:",
            _install(f"./{FOLDERS[name]}"),
            id="addon-not-installed",
        )
    return addon.load() if addon else None


def _named() -> Iterator[AddonCommand]:
    for distribution in distributions():
        try:
            yield from _commands_of(distribution)
        except Exception as error:  # one package's broken metadata disturbs no other add-on
            warnings.warn(f"entry points of a package cannot be read: {error}", stacklevel=2)


def _commands_of(distribution: Distribution) -> Iterator[AddonCommand]:
    # Reading this one file is a tenth of parsing each distribution's metadata.
    if GROUP not in (distribution.read_text("entry_points.txt") or ""):
        return
    label = f"{distribution.metadata['Name']} {distribution.version}"
    summary = " ".join(distribution.metadata.get_all("Summary", []))
    for entry_point in distribution.entry_points:
        if entry_point.group == GROUP:
            yield AddonCommand(entry_point, label, summary)


def _install(*folders: str) -> Remedy:
    return command(sys.executable, "-m", "pip", "install", *folders)
