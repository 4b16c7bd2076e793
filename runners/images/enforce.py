"""Holds an image against the policies in force, before anything is submitted."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ..core.errors import NotVerified
from ..core.model import Choice
from . import digest_cache, images_lock, signature
from .policy import Policy, Verdict


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
    met = tuple(
        Choice(
            "policy",
            meets(rules, image, images_lock.here()),
            f"{rules.origin} wants: {rules.words()}",
        )
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
        found.append(_signature(rules, image))
    if rules.known_digests_only:
        found.append(_known(rules, image, lockfile))
    return ", ".join(found)


def _signature(rules: Policy, image: Path) -> str:
    if image.is_dir():
        raise _refused(
            rules, image, "a folder cannot be signed", f"apptainer build NEW.sif {image}"
        )
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
