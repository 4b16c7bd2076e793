"""Commands that bring images here and there: pull, push, registry, images."""

from __future__ import annotations

import getpass
import os
import sys

import click

from containers.catalogue import IMAGES

from ..core import architecture, runtime_pull
from ..core.disk_space import shown
from ..core.errors import UsageError
from ..images import local, pull, push, reference, release
from . import common_options, printer, progress

PULL_EXAMPLE = """\b
Examples:
  runner pull cpu
  runner pull oras://registry.example.org/team/train:v1
  runner pull docker://nvcr.io/nvidia/pytorch:24.12-py3 --name pytorch
  runner pull https://example.org/train.sif --digest sha256:2c26b46b68ffc68f...
"""
PUSH_EXAMPLE = """\b
Examples:
  runner push horovod_cpu.sif oras://registry.example.org/team/train:v1
  runner push horovod_cpu.sif docker://registry.example.org/team/train:v1
  runner push horovod_cpu.sif oci-archive:train.tar
"""


_no_https = click.option(
    "--no-https", "plain", is_flag=True, help="http instead of https (APPTAINER_NOHTTPS)"
)


@click.command("pull", epilog=PULL_EXAMPLE)
@click.argument("uri")
@click.option("--name", help="name in the images folder (default: IMAGE_TAG.sif)")
@click.option("--digest", default="", help="what it must be; for docker:// the manifest's")
@click.option("--update", is_flag=True, help="ask again what the tag means, despite images.lock")
@click.option(
    "--arch", default=architecture.architecture, help="architecture (default: this machine's)"
)
@_no_https
@common_options.as_json
def pull_command(
    uri: str, name: str | None, digest: str, update: bool, arch: str, plain: bool, as_json: bool
) -> None:
    """Pull an image once, store it by its digest, and record it in images.lock.

    URI is oras://, docker://, library://, https://, docker-archive:FILE, oci-archive:FILE or a
    .sif file; cpu and gpu are this version's prebuilt images, from `[images] source`.
    """
    if uri in IMAGES:
        found = release.image(uri, arch, os.environ)
        name = name or IMAGES[uri].name
    else:
        found = reference.parse(uri)
    name = reference.image_name(name) if name else pull.name_of(found)
    digest = reference.checked_digest(digest) if digest else ""
    plain = plain or runtime_pull.plain()
    with progress.display() as display:
        request = pull.Request(found, name, arch, digest, plain, update)
        stored = pull.pull(request, display)
    if as_json:
        printer.print_json({"name": name, **vars(stored), "path": str(stored.path)})
    else:
        click.echo(f"{name}: {stored.digest}, {shown(stored.size)}", err=True)
        click.echo(stored.path)


@click.command("push", epilog=PUSH_EXAMPLE)
@click.argument("image")
@click.argument("uri")
@click.option("-U", "--allow-unsigned", is_flag=True, help="also to a library, which wants one")
@_no_https
@common_options.as_json
def push_command(image: str, uri: str, allow_unsigned: bool, plain: bool, as_json: bool) -> None:
    """Push IMAGE, a .sif file or a name, to a registry or a library.

    oras:// and library:// take the file as it is. docker:// makes an OCI image of it, for Podman,
    Docker, Shifter, enroot and others; oci-archive:FILE writes that into a file.
    """
    target = reference.target(uri)
    path = local.find(image)
    with progress.display() as display:
        pushed = push.push(path, target, plain or runtime_pull.plain(), allow_unsigned, display)
    if as_json:
        printer.print_json({"uri": target.source, **vars(pushed)})
        return
    click.echo(f"{target.source}: {pushed.digest}", err=True)
    click.echo(target.at(pushed.manifest).text if pushed.manifest else target.text)


@click.group("registry")
def registry_command() -> None:
    """Log in to a registry and out of it; kept where `apptainer registry login` keeps it."""


@registry_command.command("login", epilog="Example: runner registry login -u ada ghcr.io")
@click.argument("host")
@click.option("-u", "--username", required=True, help="name; nvcr.io wants $oauthtoken")
@click.option("--password-stdin", is_flag=True, help="read the password from standard input")
@_no_https
def login_command(host: str, username: str, password_stdin: bool, plain: bool) -> None:
    """Try a name and a password at the registry HOST, then keep them.

    The password is asked for, or read from standard input: an argument would be seen by others.
    """
    from ..images import credentials, registry

    host = reference.registry_name(host)
    password = _password(password_stdin)
    registry.check(host, plain or runtime_pull.plain(), username, password)
    credentials.login(host, username, password)
    click.echo(f"logged in to {host} as {username}", err=True)


def _password(from_stdin: bool) -> str:
    if from_stdin:
        return sys.stdin.readline().rstrip("\r\n")
    if not sys.stdin.isatty():
        raise UsageError(
            "there is no terminal to ask for the password", remedy="--password-stdin < FILE"
        )
    return getpass.getpass()


@registry_command.command("logout", epilog="Example: runner registry logout ghcr.io")
@click.argument("host")
def logout_command(host: str) -> None:
    """Forget the password for the registry HOST."""
    from ..images import credentials

    host = reference.registry_name(host)
    credentials.logout(host)
    click.echo(f"logged out of {host}", err=True)
