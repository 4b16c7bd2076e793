"""`runner verify`: whether an image is what it claims to be."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from ...contract.log_text import harmless
from ...core import diagnosis
from ...core.errors import NotVerified
from ...images import local_image
from ...registry import reference
from .. import invocation, options, printer
from .image_command import ImageCommand

if TYPE_CHECKING:
    from ...images import verify


@click.command("verify", cls=ImageCommand, epilog="Example: runner verify horovod_cpu.sif --quick")
@click.argument("image")
@click.option("--digest", default="", metavar="sha256:...", help="expected digest of the file")
@click.option("--quick", is_flag=True, help="skip the checks that run in the image")
@options.as_json
def verify_command(image: str, digest: str, quick: bool, as_json: bool) -> None:
    """Verify IMAGE: signature, digest, labels, check-build, two ranks; exit code 81 on failure.

    The digest is compared with --digest and with images.lock in the current folder. A signature is
    checked by `apptainer verify`, whose words are shown. An unsigned image is reported as "not
    signed"; this is not a failure.
    """
    from ...images import verify

    digest = reference.checked_digest(digest) if digest else ""
    path = local_image.file_of(image)
    checks = []
    tell = printer.tell if sys.stderr.isatty() else lambda words: None
    for check in verify.verify(path, digest, quick, tell):
        checks.append(check)
        if not as_json:
            _show_check(check)
    failed = any(check.state == verify.FAIL for check in checks)
    if as_json:
        typed = invocation.command_line()
        lines = [check.facts(typed) for check in checks]
        printer.print_json({"image": str(path), "verified": not failed, "checks": lines})
    sys.exit(NotVerified.exit_code if failed else 0)


def _show_check(check: verify.ImageCheck) -> None:
    # Each check is printed when it ends, before those are known that a table would be aligned to.
    mark = f"{check.state:<12} {check.name:<13} "
    for line in diagnosis.lines(check, mark=mark, indent=" " * len(mark)):
        click.echo(harmless(line).rstrip())
