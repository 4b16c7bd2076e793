"""Our images, prebuilt or built: what `pull cpu` and a launch without its image do."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

import click

from containers import build_record, plan
from containers.catalogue import IMAGES

from ...core import machine, runtime_pull
from ...core.disk_space import shown
from ...core.errors import NotVerified, RunnerError
from ...images import prebuilt, pull, release
from ...images.local import ImageMissing
from ...images.pull import PullRequest
from ...images.reference import Reference
from ...images.release import Image
from .. import printer, progress

PULL, BUILD, NEITHER = "pull", "build", "neither"


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
    """Return what the source has for `cpu` or `gpu`. Raises as `release.here`, and Refused."""
    verified = release.here(os.environ, plain)
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
    plain = runtime_pull.plain()
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

    click.get_current_context().invoke(build_command, words=(short,))


def brought(missing: ImageMissing) -> bool:
    """Ask at a terminal whether to pull or to build a missing image of ours, and do it.

    Tells the size of a pull, and how long a build takes. Returns whether the image is there now;
    raises the RunnerError of the way that was chosen.
    """
    if not missing.short or not all(each.isatty() for each in (sys.stdin, sys.stdout, sys.stderr)):
        return False
    printer.tell(missing.what)
    chosen, plain = _ask(missing.short, runtime_pull.plain()), runtime_pull.plain()
    if isinstance(chosen, Offer):
        printer.tell(chosen.told)
        with progress.display() as display:
            pull.pull(chosen.request(plain=plain), display)
    elif chosen == BUILD:
        _build(missing.short)
    return chosen != NEITHER


def _ask(short: str, plain: bool) -> Offer | str:
    ways = {BUILD: f"about {IMAGES[short].minutes} minutes on two cores", NEITHER: "stop here"}
    offer = None
    try:
        offer = look(short, machine.architecture(), plain)
    except RunnerError as error:
        ways[NEITHER] += f"; nothing can be pulled: {error.what}"
    else:
        size = shown(offer.image.size)
        ways = {PULL: f"{size} from {offer.reference.source}, {offer.told}", **ways}
    click.echo("\n".join(f"  {name:8} {text}" for name, text in ways.items()), err=True)
    kind = click.Choice(list(ways))
    chosen: str = click.prompt("which", default=next(iter(ways)), type=kind, err=True)
    return offer if offer and chosen == PULL else chosen
