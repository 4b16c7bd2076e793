"""The rules of `[policy]` in runner.toml: which images may be launched, and whether one may."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.errors import NotVerified, UsageError
from ..core.model import Choice
from ..core.toml_check import check
from ..settings import config
from . import digest_cache, images_lock

# A key's fingerprint: SHA-1 in OpenPGP version 4, SHA-256 in version 6.
FINGERPRINT = re.compile(r"[0-9A-F]{40}|[0-9A-F]{64}")
KEYS = {"require-signature": bool, "signers": tuple[str, ...], "known-digests-only": bool}


@dataclass(frozen=True)
class Policy:
    """The rules of one file, `origin`. Each file's own have to be met: none weakens another's.

    `signers` are fingerprints, of which one must have signed; empty lets any known key do.
    """

    origin: str
    require_signature: bool = False
    signers: tuple[str, ...] = ()
    known_digests_only: bool = False

    def words(self) -> str:
        """Return the rules in words, "" where there are none."""
        rules = []
        if self.signers:
            rules.append("signed by " + " or ".join(self.signers))
        elif self.require_signature:
            rules.append("signed by a known key")
        if self.known_digests_only:
            rules.append("in images.lock")
        return ", ".join(rules)


@dataclass(frozen=True)
class Verdict:
    """How an image meets the policies, and the digest that it had: the job checks it again."""

    choices: tuple[Choice, ...] = ()
    digest: str = ""


def load(env: Mapping[str, str]) -> tuple[Policy, ...]:
    """Return the policies in force here; raise UsageError for unknown keys and wrong values."""
    return tuple(parse(origin, table) for origin, table in config.tables(env, "policy"))


def parse(origin: str, table: Mapping[str, Any]) -> Policy:
    check(origin, KEYS, dict(table))
    signers = _signers(origin, table.get("signers", []))
    signed, known = (bool(table.get(key)) for key in ("require-signature", "known-digests-only"))
    return Policy(origin, signed or bool(signers), signers, known)


def _signers(origin: str, value: list[str]) -> tuple[str, ...]:
    found = tuple(item.replace(" ", "").upper() for item in value)
    for text in found:
        if not FINGERPRINT.fullmatch(text):
            raise UsageError(
                f"{origin}: the signer {text!r} is not a whole fingerprint",
                "40 hexadecimal digits; shorter key ids can be forged",
                "apptainer key list",
            )
    return found


def decide(policies: Iterable[Policy], image: Path) -> Verdict:
    """Return the verdict on an image; raise NotVerified for the first policy that it fails.

    Of an image that is not here yet, in a dry run, it only says that there are policies.
    """
    active = [rules for rules in policies if rules.words()]
    if not active:
        return Verdict()
    if not image.exists():
        return Verdict(tuple(Choice("policy", rules.words(), rules.origin) for rules in active))
    seen = digest_cache.stamp(image)
    lockfile = images_lock.here()
    met = tuple(
        Choice("policy", meets(rules, image, lockfile), f"{rules.origin} wants: {rules.words()}")
        for rules in active
    )
    digest = digest_cache.digest(image)
    if digest_cache.stamp(image) != seen:
        raise NotVerified(f"{image} changed while it was verified", remedy="try again")
    return Verdict(met, digest)


def meets(rules: Policy, image: Path, lockfile: Path) -> str:
    """Return how the image meets the rules; raise NotVerified when it does not."""
    found = []
    if rules.require_signature:
        found.append(_signed(rules, image))
    if rules.known_digests_only:
        found.append(_known(rules, image, lockfile))
    return ", ".join(found)


def _signed(rules: Policy, image: Path) -> str:
    from . import signature  # 8 ms that a launch without a policy need not pay

    if image.is_dir():
        remedy = f"apptainer build NEW.sif {image}"
        raise _refused(rules, image, "a folder cannot be signed", remedy)
    found = signature.remembered(image)
    if found.state == signature.UNSIGNED:
        raise _refused(rules, image, "it is not signed", f"runner sign {image}")
    if found.state == signature.BAD:
        raise _refused(rules, image, f"{found.message}\n{found.evidence}", found.remedy)
    # An object of the file that others signed is theirs, whoever signed the rest.
    if rules.signers and not all(set(group) & set(rules.signers) for group in found.groups):
        by = ", ".join(signature.named(key) for key in found.signers)
        allowed = "\n".join(f"allowed: {signature.named(key)}" for key in rules.signers)
        raise _refused(rules, image, f"signed by {by}\n{allowed}", f"runner sign {image} --key FPR")
    return "signed by " + ", ".join(found.signers)


def _known(rules: Policy, image: Path, lockfile: Path) -> str:
    if image.is_dir():
        raise _refused(rules, image, "a folder has no digest", "runner pull IMAGE")
    digest = digest_cache.digest(image)
    for entry in images_lock.read(lockfile):
        if entry.digest == digest:
            return f"in {lockfile} as {entry.name}"
    evidence = f"{digest} is not in {lockfile.absolute()}"
    raise _refused(rules, image, evidence, "runner pull IMAGE, which records it there")


def _refused(rules: Policy, image: Path, evidence: str, remedy: str) -> NotVerified:
    return NotVerified(
        f"the policy refuses {image}", f"{rules.origin} wants: {rules.words()}\n{evidence}", remedy
    )
