"""Options that the commands of `runner build` share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Callable

import click

from containers import pip
from containers.build_plan import PACK_LEVEL, STRONGEST_LEVEL, BuildOptions

from ...core.machine import MACHINES

FILE = click.Path(path_type=Path, exists=True, dir_okay=False)

output = click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    help="output file (default: in images/ on scratch)",
)
base = click.option(
    "--base",
    default="auto",
    metavar="auto|debian|IMAGE",
    help="base of the image: Debian packages, an image from a registry, or one in a file "
    "(docker-archive:FILE, oci-archive:FILE)",
)
ca = click.option(
    "--ca-certificate",
    "ca",
    type=FILE,
    help="CA certificate of the site, trusted during the build only",
)
level = click.option(
    "--pack-level",
    "level",
    type=click.IntRange(1, STRONGEST_LEVEL),
    metavar="LEVEL",
    help=f"zstd level, 1 to {STRONGEST_LEVEL}; 6 packs fast, 19 is smallest ({PACK_LEVEL})",
)
arch = click.option(
    "--arch",
    type=click.Choice(sorted(MACHINES)),
    help="target architecture; a foreign one is emulated (default: this machine's)",
)


def packages(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say where packages of Python come from."""
    for option in (
        click.option("--extra-index-url", metavar="URL", default="", help="additional index"),
        click.option("--index-url", metavar="URL", default="", help="package index to use"),
        click.option("--wheelhouse", metavar="DIR", help="install wheels from this folder only"),
    ):
        function = option(function)
    return function


def of(values: Mapping[str, Any]) -> BuildOptions:
    """Return what the options say."""
    return BuildOptions(
        base=values["base"],
        source=pip.PackageSource.of(values),
        output=values["output"],
        frozen=values.get("frozen", False),
        ca=values["ca"],
        arch=values["arch"] or "",
        level=values.get("level"),
    )
