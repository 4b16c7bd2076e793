"""Checks by the container runtime who signed an image, and signs one with a key of the user's.

The runtime itself asks for the passphrase, on the terminal or its standard input: it is in no
argument, variable or log of ours.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from containers import build_record

from ...core import shell, sif
from ...core.errors import NotVerified, Refused, SystemFault, UsageError
from .. import container_runtime
from ..facts import digest_cache, image_labels
from ..store import store

SIGNED, UNSIGNED, BAD = "signed", "not signed", "bad"
BYTES_PER_SECOND = 20e6  # a slow network file system, for the time limit
FATAL = re.compile(
    r"^FATAL:\s+(?:Failed to verify container: )?(?:integrity: )?(.+)$", re.MULTILINE
)
LISTED = re.compile(r"User:\s+(.*?)\s*$.*?Fingerprint:\s+(\w+)", re.MULTILINE | re.DOTALL)

IMPORT = "apptainer key import FILE (the signer's public key, after comparing its fingerprint)"
NEW_KEY = "apptainer key newpair --name 'YOUR NAME' --email YOU@EXAMPLE.ORG --push=false"
AGAIN = "pull or build it again"
RENEW = "apptainer key remove {0}; apptainer key import FILE (the signer's renewed public key)"
# Part of the runtime's words (Apptainer 1.4, its sif and openpgp libraries) -> what happened, and
# the next command with the key's fingerprint as {0}. The first match counts.
FAULTS = (
    (
        "key material not provided",
        "signed with a key that is not PGP",
        "apptainer verify --key PEM IMG",
    ),
    ("unknown entity", "signed with an unknown key", IMPORT),
    ("expired", "the key of its signature has expired", RENEW),
    ("revoked", "the key of its signature was revoked", AGAIN),
    ("not associated with object group", "a part was added that no signature covers", AGAIN),
    ("signature not found for object group", "only a part of it is signed", AGAIN),
    ("compromised|object not signed|object not found", "it was altered after it was signed", AGAIN),
    (
        "signature object|correspond|not recognized|unsupported",
        "its signature is damaged or forged",
        AGAIN,
    ),
)


@dataclass(frozen=True)
class ImageSignature:
    """The outcome of a check.

    `signers` are the fingerprints of those who signed it, all of them checked; `message`,
    `evidence` and `remedy` tell why it is bad.
    """

    state: str
    signers: tuple[str, ...] = ()
    message: str = ""
    evidence: str = ""
    remedy: str = ""


def check(path: Path) -> ImageSignature:
    """Let the runtime check all signatures of a SIF, by the keys of its own keyring.

    Raises sif.SifError for an incomplete SIF file, SystemFault when nothing answers.
    """
    signers = claimed(path)
    if not signers:
        return ImageSignature(UNSIGNED)
    argv = [container_runtime.command(), "verify", "--json", "--local", str(path)]
    done = shell.run(argv, timeout=60 + path.stat().st_size / BYTES_PER_SECOND)
    return _bad(done.err, signers) if done.code else ImageSignature(SIGNED, verified(done.out))


def claimed(path: Path) -> tuple[str, ...]:
    """Return the fingerprints that the file's signatures name, unchecked; "" is not PGP's."""
    items = [item for item in sif.objects(path) if item.type == sif.SIGNATURE]
    return tuple(sorted({sif.signed_by(item) for item in items}))


def verified(text: str) -> tuple[str, ...]:
    """Return the fingerprints in the runtime's JSON whose key and data are both right."""
    start = text.find("{")
    content: dict[str, Any] = json.loads(text[start:]) if start >= 0 else {}
    keys = [item["Signer"] for item in content.get("SignerKeys") or []]
    bad = {key["Fingerprint"] for key in keys if not (key["KeyCheck"] and key["DataCheck"])}
    return tuple(
        sorted({key["Fingerprint"].upper() for key in keys if key["Fingerprint"] not in bad})
    )


def _bad(text: str, signers: tuple[str, ...]) -> ImageSignature:
    fatal = FATAL.search(text)
    words = fatal.group(1) if fatal else text.strip()
    by = ", ".join(named(signer) for signer in signers)
    message, remedy = next(
        (fault[1:] for fault in FAULTS if re.search(fault[0], words)), ("its check failed", AGAIN)
    )
    evidence = f"{words}\nit names {by}"
    return ImageSignature(BAD, (), message, evidence, remedy.format(" ".join(signers)))


def known_keys(secret: bool = False) -> list[tuple[str, str]]:
    """Return the keys in the runtime's own keyring as (fingerprint, name), in its order."""
    done = shell.run(
        [container_runtime.command(), "key", "list", *(["--secret"] if secret else [])]
    )
    if done.code:
        raise SystemFault("the keyring cannot be listed", done.err)
    return [(print_, name) for name, print_ in LISTED.findall(done.out)]


def named(fingerprint: str) -> str:
    """Return a fingerprint with the name that the keyring has for it."""
    if not fingerprint:
        return "a key that is not PGP"
    name = dict(known_keys()).get(fingerprint)
    return f"{fingerprint} ({name})" if name else f"{fingerprint} (not in the keyring)"


def sign(image: Path, wanted: str = "") -> ImageSignature:
    """Sign with the key that `wanted` names, or the only one; return who has signed now.

    Raises UsageError for a key or passphrase that is wrong, Refused where it cannot be signed,
    NotVerified when its signatures do not hold. When anything fails the file is as it was.
    """
    _check_file(image)
    keys = known_keys(secret=True)
    number = choose(keys, wanted)
    before = check(image)
    if before.state == BAD:
        raise NotVerified(f"{image} has a signature already: {before.message}", before.evidence)
    if keys[number][0] in before.signers:
        return before
    # Else a later `runner build` would take the signed image for one that somebody put there.
    built = build_record.read(image)
    with _undone_on_failure(image):
        signed = _sign(image, number)
    if built:
        build_record.write(image, built.key, digest_cache.digest(image), built.level)
    return signed


def _check_file(image: Path) -> None:
    image_labels.read(image)
    if image.is_dir():
        raise Refused("a folder cannot be signed", remedy=f"apptainer build NEW.sif {image}")
    if store.digest_named(image.resolve()):
        evidence = "signing would change its content, and with it the digest that names it"
        raise Refused(f"{image} was pulled", evidence, f"cp {image} MY.sif && runner sign MY.sif")
    if not os.access(image, os.W_OK):
        raise Refused(f"{image} is not yours to write", remedy=f"cp {image} MY.sif")


def choose(keys: list[tuple[str, str]], wanted: str) -> int:
    """Return the number of the secret key that `wanted`, a fingerprint or its end, means."""
    if not keys:
        raise Refused("there is no key to sign with", "apptainer key list --secret", NEW_KEY)
    end = wanted.replace(" ", "").upper()
    fits = [number for number, (print_, _) in enumerate(keys) if print_.endswith(end)]
    if len(fits) == 1 and (not end or len(end) >= 8):
        return fits[0]
    listed_keys = "\n".join(f"{print_} ({name})" for print_, name in keys)
    if not end:
        raise UsageError("there is more than one key", listed_keys, "--key FINGERPRINT")
    raise UsageError(f"--key {wanted} is not one of your keys", listed_keys, "--key FINGERPRINT")


def _sign(image: Path, number: int) -> ImageSignature:
    done = shell.ask([container_runtime.command(), "sign", "--keyidx", str(number), str(image)])
    if "checksum failure" in done.err:
        raise UsageError("the passphrase is wrong", remedy="try again")
    if done.code:
        raise SystemFault(f"{image} could not be signed", done.err)
    signature = check(image)
    if signature.state != SIGNED:
        words = f"{signature.message}\n{signature.evidence}"
        raise NotVerified(f"the new signature of {image} does not hold", words, signature.remedy)
    return signature


@contextmanager
def _undone_on_failure(image: Path) -> Iterator[None]:
    """Put back what lies before the objects, and cut off what was added behind them.

    Signing writes nothing else (github.com/apptainer/sif, AddObject).
    """
    before, seen = image.stat(), digest_cache.stamp(image)
    with image.open("rb") as file:
        head = file.read(min(item.offset for item in sif.objects(image)))
    try:
        yield
    except BaseException:
        if digest_cache.stamp(image) != seen:
            with image.open("r+b") as file:
                file.write(head)
                file.truncate(before.st_size)
            os.utime(image, ns=(before.st_atime_ns, before.st_mtime_ns))
        raise
