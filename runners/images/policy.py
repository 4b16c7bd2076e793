"""The rules of `[policy]` in runner.toml: which images may be launched."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..core.errors import UsageError
from ..core.model import Choice
from ..core.toml_check import check
from ..settings import config

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


def load(env: Mapping[str, str]) -> tuple[Policy, ...]:
    """Return the policies in force here; raise UsageError for unknown keys and wrong values."""
    return tuple(parse(origin, table) for origin, table in config.tables(env, "policy"))


def parse(origin: str, table: Mapping[str, Any]) -> Policy:
    """Return the policy of a file's table."""
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


@dataclass(frozen=True)
class Verdict:
    """How an image meets the policies, and the digest that it had: the job checks it again."""

    choices: tuple[Choice, ...] = ()
    digest: str = ""
