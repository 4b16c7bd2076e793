"""`runner data`: fetch, pack and synth."""

from __future__ import annotations

import os
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from ...contract.log_text import human_size
from ...data import synth
from .. import options, printer, progress

FOLDER = click.Path(path_type=Path)


@click.group("data", epilog="Example: runner data fetch mnist")
def data_command() -> None:
    """Download, pack and generate datasets."""


@data_command.command("fetch", epilog="Example: runner data fetch cifar10")
@click.argument("name", required=False)
@click.option("--mirror", multiple=True, metavar="URL", help="download from this URL instead")
@options.as_json
def fetch_command(name: str | None, mirror: tuple[str, ...], as_json: bool) -> None:
    """Download the dataset NAME to scratch and verify its checksums; without NAME list all.

    Define your own datasets in runner.toml: [datasets.NAME] with urls and sha256. An interrupted
    download is resumed. http_proxy, https_proxy, no_proxy and SSL_CERT_FILE are honored.
    """
    from ...data import dataset_catalogue, fetch

    if name is None:
        _list(dataset_catalogue.everything(os.environ), as_json)
        return
    entry = dataset_catalogue.find(name, os.environ)
    with progress.display() as display:
        done = fetch.fetch(entry, mirror, os.environ, display)
    state = "fetched" if done.fresh else "there already"
    about = f"{state}: {done.files} files, {human_size(done.size)}"
    facts = {**asdict(done), "path": str(done.path)}
    printer.made(as_json, facts, about, done.path, f"runner launch --data {name} ...")


def _list(known: dict[str, Any], as_json: bool) -> None:
    rows = []
    for name, entry in known.items():
        size = sum(source.size or 0 for source in entry.files)
        rows.append([name, human_size(size) if size else "-", entry.title])
    facts = {name: asdict(entry) for name, entry in known.items()}
    printer.json_or_table(as_json, facts, rows, ["name", "download", "what it is"])


@data_command.command("pack", epilog="Example: runner data pack imagenet -o imagenet.sqsh")
@click.argument("folder", type=FOLDER)
@click.option("--output", "-o", type=FOLDER, help="output file (default: FOLDER.sqsh)")
@options.as_json
def pack_command(folder: Path, output: Path | None, as_json: bool) -> None:
    """Pack FOLDER into one squashfs file for --data: one file to open instead of a million.

    The result is reproducible: the same folder gives the same file. The checksum is written next
    to it.
    """
    from ...data import pack

    target = output or Path(f"{os.path.normpath(folder)}.sqsh")
    with progress.display() as display:
        done = pack.pack(folder, target.absolute(), display)
    content = done.content
    about = (
        f"packed {content.files} files in {content.folders} folders, {human_size(content.size)}, "
        f"into {human_size(done.size)}"
    )
    facts = {**asdict(done), "path": str(done.path)}
    printer.made(as_json, facts, about, target, f"runner launch --data NAME={target} ...")


@data_command.command("synth", epilog="Example: runner data synth imagenet small --samples 2000")
@click.argument("kind", type=click.Choice(list(synth.KINDS)))
@click.argument("folder", type=FOLDER)
@click.option(
    "--samples", type=int, required=True, help="training samples; a fifth as many for testing"
)
@click.option(
    "--classes", type=int, default=10, show_default=True, help="number of classes (images)"
)
@click.option(
    "--size", type=int, default=64, show_default=True, help="width and height in pixels (imagenet)"
)
@click.option(
    "--vocabulary", type=int, default=256, show_default=True, help="vocabulary size (tokens)"
)
def synth_command(
    kind: str, folder: Path, samples: int, classes: int, size: int, vocabulary: int
) -> None:
    """Generate a synthetic, learnable dataset of a KIND and any size in a new FOLDER.

    For trials and tests. The files have the format of the real dataset. --samples counts tokens
    for a dataset of tokens.
    """
    spec = synth.SyntheticSpec(samples, classes, size, vocabulary)
    synth.write(kind, folder, spec)
    unit = "tokens" if kind == "tokens" else "samples"
    training, testing = spec.parts
    text = f"wrote {training:,} {unit} for training and {testing:,} for testing, in the format of"
    next_step = f"runner launch --data {shlex.quote(str(folder))} TRAINER"
    printer.made(False, None, f"{text} {kind}", folder.absolute(), next_step)
