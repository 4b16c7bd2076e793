"""Who signed an image, by the check of the container runtime, and what is wrong when it fails."""

from __future__ import annotations

import json
import os
import re
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from containers import sif

from ..core import runtime_pull, shell
from ..core.errors import SystemFault
from . import digest_cache

SIGNED, UNSIGNED, BAD = "signed", "not signed", "bad"
# A remembered check is repeated after this many seconds: keys expire and are revoked.
REMEMBERED_FOR = 24 * 3600
BYTES_PER_SECOND = 20e6  # a slow network file system, for the time limit
FATAL = re.compile(
    r"^FATAL:\s+(?:Failed to verify container: )?(?:integrity: )?(.+)$", re.MULTILINE
)
LISTED = re.compile(r"User:\s+(.*?)\s*$.*?Fingerprint:\s+(\w+)", re.MULTILINE | re.DOTALL)

IMPORT = "apptainer key import FILE (the signer's public key, after comparing its fingerprint)"
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
class Signature:
    """The outcome of a check.

    `groups` holds for each group of the file's objects the fingerprints of those who signed it,
    all of them checked; `message`, `evidence` and `remedy` tell why it is bad.
    """

    state: str
    groups: tuple[tuple[str, ...], ...] = ()
    message: str = ""
    evidence: str = ""
    remedy: str = ""

    @property
    def signers(self) -> tuple[str, ...]:
        """The fingerprints of all who signed."""
        return tuple(sorted({signer for group in self.groups for signer in group}))


def check(path: Path, online: bool = False) -> Signature:
    """Let the runtime check all signatures of a SIF; `online` lets it ask a key server.

    Raises sif.SifError for a file that is no whole SIF, SystemFault when nothing answers.
    """
    found = sif.objects(path)
    if not any(item.type == sif.SIGNATURE for item in found):
        return Signature(UNSIGNED)
    code, text, signers = _verify(path, [] if online else ["--local"])
    if code:
        return _bad(text, claimed(path))
    groups = sorted({item.group for item in found if item.type != sif.SIGNATURE})
    if len(groups) == 1:
        return Signature(SIGNED, (signers,))
    # The table says who signed which group, but only the runtime's answer is proof.
    each = [_verify(path, ["--local", "--group-id", str(group)])[2] for group in groups]
    return Signature(SIGNED, tuple(each))


def claimed(path: Path) -> tuple[str, ...]:
    """Return the fingerprints that the file's signatures name, unchecked; "" is not PGP's."""
    items = [item for item in sif.objects(path) if item.type == sif.SIGNATURE]
    return tuple(sorted({sif.signed_by(item) for item in items}))


def _verify(path: Path, flags: list[str]) -> tuple[int, str, tuple[str, ...]]:
    argv = [runtime_pull.command(), "verify", "--json", *flags, str(path)]
    done = shell.run(argv, timeout=60 + path.stat().st_size / BYTES_PER_SECOND)
    return done.code, done.err, verified(done.out)


def verified(text: str) -> tuple[str, ...]:
    """Return the fingerprints in the runtime's JSON whose key and data are both right."""
    start = text.find("{")
    content: dict[str, Any] = json.loads(text[start:]) if start >= 0 else {}
    keys = [item["Signer"] for item in content.get("SignerKeys") or []]
    bad = {key["Fingerprint"] for key in keys if not (key["KeyCheck"] and key["DataCheck"])}
    return tuple(
        sorted({key["Fingerprint"].upper() for key in keys if key["Fingerprint"] not in bad})
    )


def _bad(text: str, signers: tuple[str, ...]) -> Signature:
    fatal = FATAL.search(text)
    words = fatal.group(1) if fatal else text.strip()
    by = ", ".join(named(signer) for signer in signers)
    message, remedy = next(
        (found[1:] for found in FAULTS if re.search(found[0], words)), ("its check failed", AGAIN)
    )
    evidence = f"{words}\nit names {by}"
    return Signature(BAD, (), message, evidence, remedy.format(" ".join(signers)))


def known_keys(secret: bool = False) -> list[tuple[str, str]]:
    """Return the keys in the runtime's own keyring as (fingerprint, name), in its order."""
    done = shell.run([runtime_pull.command(), "key", "list", *(["--secret"] if secret else [])])
    if done.code:
        raise SystemFault("the keyring cannot be listed", done.err)
    return [(print_, name) for name, print_ in LISTED.findall(done.out)]


def named(fingerprint: str) -> str:
    """Return a fingerprint with the name that the keyring has for it."""
    if not fingerprint:
        return "a key that is not PGP"
    name = dict(known_keys()).get(fingerprint)
    return f"{fingerprint} ({name})" if name else f"{fingerprint} (not in the keyring)"


def remembered(path: Path) -> Signature:
    """Return the last check of the file as it is now and with the keys as they are, or check.

    Only good outcomes are remembered. Raises as `check` does.
    """
    now, keys = time.time(), _keyrings()
    known = digest_cache.recall(path, "signature")
    if known and known["keys"] == keys and 0 <= now - known["at"] < REMEMBERED_FOR:
        return Signature(SIGNED, tuple(tuple(group) for group in known["groups"]))
    seen = digest_cache.stamp(path)
    found = check(path)
    if found.state == SIGNED and digest_cache.stamp(path) == seen:
        value = {"at": now, "keys": keys, "groups": asdict(found)["groups"]}
        digest_cache.remember(path, seen, now, "signature", value)
    return found


def _keyrings() -> list[Any]:
    """Return the stamps of the files that hold public keys, as the runtime looks for them."""
    home = os.path.expanduser("~")
    folders = [
        os.environ.get("APPTAINER_KEYSDIR") or os.path.join(home, ".apptainer", "keys"),
        os.environ.get("SINGULARITY_KEYSDIR") or os.path.join(home, ".singularity", "keys"),
    ]
    files = [Path(folder, "pgp-public") for folder in folders]
    files += [Path("/etc", name, "global-pgp-public") for name in ("apptainer", "singularity")]
    return [[str(file), digest_cache.stamp(file) if file.exists() else None] for file in files]
