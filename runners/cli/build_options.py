"""Options of `runner build`: where packages come from, and which image a new one starts from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from ..core.errors import UsageError

Command = Callable[..., Any]
FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
PACKAGES = ("wheelhouse", "index_url", "extra_index_url")
OF_OURS = ("base", "frozen")
OF_BASES = ("origin", "requirements", "def_file", "given", "horovod")  # of an image of others
OF_ENVIRONMENTS = ("into", "mpi", "module")
DEFAULTS = {"base": "auto"}
PATHS = {
    "requirements": "--requirements",
    "def_file": "--def",
    "ca": "--ca-certificate",
    "wheelhouse": "--wheelhouse",
}
TEXTS = {"index_url": "--index-url", "extra_index_url": "--extra-index-url"}


def packages(function: Command) -> Command:
    """Add the options that say where wheels come from."""
    for option in (
        click.option("--extra-index-url", metavar="URL", default="", help="a second index"),
        click.option("--index-url", metavar="URL", default="", help="package index to use"),
        click.option("--wheelhouse", metavar="DIR", help="take wheels from this folder only"),
    ):
        function = option(function)
    return function


def base_image(function: Command) -> Command:
    """Add the options of an image made from another."""
    for option in (
        click.option("--def", "def_file", type=FILE, help="with --from: your definition on it"),
        click.option(
            "--horovod", is_flag=True, help="with --from: Horovod, compiled for what it has"
        ),
        click.option("--requirements", "-r", type=FILE, help="with --from: Python packages to add"),
        click.option("--from", "origin", metavar="IMAGE", help="make a new image from this one"),
    ):
        function = option(function)
    return function


def environment(function: Command) -> Command:
    """Add the options of an environment on the host."""
    for option in (
        click.option("--module", multiple=True, metavar="NAME", help="with env: load this first"),
        click.option("--mpi", default="", metavar="DIR|MPICXX", help="with env: compile with it"),
        click.option("--into", is_flag=True, help="with env: DIR is an environment, fill it"),
    ):
        function = option(function)
    return function


def refuse(values: Mapping[str, Any], names: tuple[str, ...], why: str) -> None:
    """Raise UsageError for options that were given and would not be heard."""
    for name in names:
        if values[name] and values[name] != DEFAULTS.get(name):
            raise UsageError(f"--{name.replace('_', '-')} {why}")


def passed_on(values: Mapping[str, Any], renamed: Callable[[str], str]) -> list[str]:
    """The options that were given, for the same command where files have other names."""
    words = [f"{name}={renamed(values[key])}" for key, name in PATHS.items() if values[key]]
    words += [f"{name}={values[key]}" for key, name in TEXTS.items() if values[key]]
    words += ["--horovod"] if values["horovod"] else []
    return words + [f"--build-arg={name}={text}" for name, text in values["given"].items()]
