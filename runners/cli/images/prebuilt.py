"""Our images, prebuilt or built: what `pull cpu` does, with `--or-build` too."""

from __future__ import annotations

import os
from dataclasses import dataclass

import click

from containers import build_record, plan

from ...core import machine
from ...core.errors import NotVerified, RunnerError
from ...images import container_runtime, prebuilt, pull, release
from ...images.pull import PullRequest
from ...images.reference import Reference
from ...images.release import Image
from .. import printer, progress


@dataclass(frozen=True)
class Offer:
    """An image of a verified release: where it is, what is known of it, and who signed that."""

    reference: Reference
    image: Image
    told: str

    def request(
        self, name: str | None = None, update: bool = False, plain: bool = False
    ) -> PullRequest:
        """Return what to pull; the digest is the release's."""
        name = name or machine.file_name(self.image.name, self.image.architecture)
        arch, digest = self.image.architecture, self.image.digest
        return PullRequest(self.reference, name, arch, digest, plain, update)


def look(short: str, arch: str, plain: bool) -> Offer:
    """Return what the source has for `cpu` or `gpu`. Raises as `release.verified`, and Refused."""
    verified = release.verified(prebuilt.place(os.environ), plain)
    reference, image = verified.image(short, arch)
    told = f"release {verified.release.version}, signed by {verified.signer}"
    return Offer(reference, image, told)


def pull_or_build(short: str) -> None:
    """Have an image of ours: the one built from this checkout, else a prebuilt one, else build.

    A source that has it not, or is down, is told; one whose signature or digest is wrong is an
    error, as without a build.
    """
    made = plan.make(short, plan.BuildOptions())
    place = prebuilt.place(os.environ)
    if place.source and not build_record.is_current(made.output, made.key):
        if _pulled(short):
            return
        printer.tell("building instead")
    _build(short)


def _pulled(short: str) -> bool:
    """Pull it if that can be; raise NotVerified."""
    plain = container_runtime.plain()
    try:
        found = look(short, machine.architecture(), plain)
        printer.tell(found.told)
        with progress.display() as display:
            click.echo(pull.pull(found.request(plain=plain), display).path)
    except NotVerified:
        raise
    except RunnerError as error:
        printer.tell(str(error))
        return False
    return True


def _build(short: str) -> None:
    from .build import build_command  # with all that builds, which a pull need not load

    click.get_current_context().invoke(build_command, target=short)
