"""Signs an image with a key of the user's, through the container runtime.

The runtime itself asks for the passphrase, on the terminal or its standard input: it is in no
argument, variable or log of ours.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from containers import build_record, sif

from ..core import runtime_pull, shell
from ..core.errors import NotVerified, Refused, SystemFault, UsageError
from . import digest_cache, local, signature, store
from .signature import Signature

NEW_KEY = "apptainer key newpair --name 'YOUR NAME' --email YOU@EXAMPLE.ORG --push=false"
Key = tuple[str, str]


def sign(image: Path, wanted: str = "") -> Signature:
    """Sign with the key that `wanted` names, or the only one; return who has signed now.

    When anything fails the file is as it was. Raises UsageError for a key or passphrase that is
    wrong, Refused where it cannot be signed, NotVerified when its signatures would not hold.
    """
    _check_file(image)
    keys = signature.known_keys(secret=True)
    number = choose(keys, wanted)
    before = signature.check(image)
    if before.state == signature.BAD:
        raise NotVerified(f"{image} has a signature already: {before.message}", before.evidence)
    if before.groups and all(keys[number][0] in group for group in before.groups):
        return before
    # A later `runner build` shall not take the signed image for one that somebody put there.
    built = build_record.read(image)
    with _undone_on_failure(image):
        found = _sign(image, number)
    if built:
        build_record.write(image, built.key, digest_cache.digest(image))
    return found


def _check_file(image: Path) -> None:
    local.read(image)
    if image.is_dir():
        raise Refused("a folder cannot be signed", remedy=f"apptainer build NEW.sif {image}")
    if store.digest_named(image.resolve()):
        evidence = "signing would change its content, and with it the digest that names it"
        raise Refused(f"{image} was pulled", evidence, f"cp {image} MY.sif && runner sign MY.sif")
    if not os.access(image, os.W_OK):
        raise Refused(f"{image} is not yours to write", remedy=f"cp {image} MY.sif")


def choose(keys: list[Key], wanted: str) -> int:
    """Return the number of the secret key that `wanted`, a fingerprint or its end, means."""
    if not keys:
        raise Refused("there is no key to sign with", "apptainer key list --secret", NEW_KEY)
    end = wanted.replace(" ", "").upper()
    fits = [number for number, (print_, _) in enumerate(keys) if print_.endswith(end)]
    if len(fits) == 1 and (not end or len(end) >= 8):
        return fits[0]
    there = "\n".join(f"{print_} ({name})" for print_, name in keys)
    if not end:
        raise UsageError("there is more than one key", there, "--key FINGERPRINT")
    raise UsageError(f"--key {wanted} is not one of your keys", there, "--key FINGERPRINT")


def _sign(image: Path, number: int) -> Signature:
    done = shell.ask([runtime_pull.command(), "sign", "--keyidx", str(number), str(image)])
    if "checksum failure" in done.err:
        raise UsageError("the passphrase is wrong", remedy="try again")
    if done.code:
        raise SystemFault(f"{image} could not be signed", done.err)
    found = signature.check(image)
    if found.state != signature.SIGNED:
        words = f"{found.message}\n{found.evidence}"
        raise NotVerified(f"the new signature of {image} does not hold", words, found.remedy)
    return found


@contextmanager
def _undone_on_failure(image: Path) -> Iterator[None]:
    """Put the header and the table of contents back, and cut off what was added behind.

    Signing writes nothing else (github.com/apptainer/sif, AddObject).
    """
    table, before, seen = sif.table_of_contents(image), image.stat(), digest_cache.stamp(image)
    try:
        yield
    except BaseException:
        if digest_cache.stamp(image) != seen:
            with image.open("r+b") as file:
                for offset, part in table.items():
                    file.seek(offset)
                    file.write(part)
                file.truncate(before.st_size)
            os.utime(image, ns=(before.st_atime_ns, before.st_mtime_ns))
        raise
