"""Our images, prebuilt or built: what `pull cpu` does, with `--or-build` too."""

from __future__ import annotations

import os

import click

from containers import build_record, plan

from ...core import machine
from ...core.errors import NotVerified, RunnerError
from ...images import pull, reference
from ...images.pull import PullRequest
from ...images.release import prebuilt, release
from .. import printer, progress


def request(
    short: str, name: str | None, digest: str, update: bool, arch: str, plain: bool
) -> PullRequest:
    """Return what to pull for `cpu` or `gpu`, by the digest of the release; say who signed that.

    Raises as `release.verified`, Refused without such an image, and NotVerified for another digest
    than the wanted one.
    """
    verified = release.verified(prebuilt.release_source(os.environ), plain)
    source, image = verified.image(short, arch)
    if digest and reference.checked_digest(digest) != image.digest:
        evidence = f"wanted {digest}\nreleased {image.digest}"
        raise NotVerified(f"the digest of {source.source} is wrong", evidence)
    printer.tell(f"release {verified.release.version}, signed by {verified.signer}")
    own_name = machine.file_name(image.name, image.architecture)
    name = reference.image_name(name) if name else own_name
    return PullRequest(source, name, image.architecture, image.digest, plain, update)


def pull_or_build(short: str) -> None:
    """Have an image of ours: the one built from this checkout, else a prebuilt one, else build.

    A source that has it not, or is down, is told; one whose signature or digest is wrong is an
    error, as without a build.
    """
    made = plan.make(short, plan.BuildOptions())
    place = prebuilt.release_source(os.environ)
    if place.source and not build_record.is_current(made.output, made.key):
        if _pulled(short):
            return
        printer.tell("building instead")
    from .build import build_command  # with all that builds, which a pull need not load

    click.get_current_context().invoke(build_command, target=short)


def _pulled(short: str) -> bool:
    """Pull it if that can be; raise NotVerified."""
    try:
        wanted = request(short, None, "", False, machine.architecture(), False)
        with progress.display() as display:
            click.echo(pull.pull(wanted, display).path)
    except NotVerified:
        raise
    except RunnerError as error:
        printer.tell(str(error))
        return False
    return True
