"""PGP signatures of files, by GnuPG, which every distribution's package manager brings.

A check uses a key ring of its own with the one key that is trusted, whatever the user's holds.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path

from ...core import shell
from ...core.errors import NotVerified, Refused, SystemFault, UsageError

# GnuPG's doc/DETAILS, "General status codes".
GOOD = re.compile(r"^\[GNUPG:\] GOODSIG ", re.MULTILINE)
VALID = re.compile(r"^\[GNUPG:\] VALIDSIG ([0-9A-F]{40,64}) ", re.MULTILINE)
FAULTS = {
    "BADSIG": "the signature does not fit: it was altered after it was signed",
    "NO_PUBKEY": "it is signed with another key",
    "EXPKEYSIG": "the key of its signature has expired",
    "EXPSIG": "its signature has expired",
    "REVKEYSIG": "the key of its signature was revoked",
}


def verify(data: bytes, signature: bytes, key: Path, what: str) -> tuple[str, str]:
    """Return fingerprint and armored text of the key that signed `data`.

    `what` is how people call the data.

    Raises NotVerified for a signature that does not hold, UsageError for a file that holds no
    public key, Refused without GnuPG.
    """
    with tempfile.TemporaryDirectory(prefix="runner-key.") as folder:
        home = Path(folder)
        for name, content in (("data", data), ("data.asc", signature)):
            (home / name).write_bytes(content)
        gpg = [_program(), "--homedir", folder, "--batch", "--no-options", "--no-autostart"]
        taken = shell.run([*gpg, "--import", str(key)])
        if taken.code:
            raise UsageError(f"{key} is no file with a public PGP key", taken.err)
        trusted = ["--trust-model", "always", "--status-fd", "1"]
        files = [str(home / "data.asc"), str(home / "data")]
        done = shell.run([*gpg, *trusted, "--verify", *files])
        armored = shell.run([*gpg, "--armor", "--export"]).out
    valid = VALID.search(done.out)
    if done.code or not valid or not GOOD.search(done.out):
        keywords = re.findall(r"^\[GNUPG:\] (\w+)", done.out, re.MULTILINE)
        faults = [FAULTS[word] for word in keywords if word in FAULTS]
        why = faults[0] if faults else "it is not a PGP signature"
        raise NotVerified(f"the signature of {what} is wrong", f"{why}\nchecked with {key}")
    return valid[1], armored


def sign(file: Path, key: str) -> Path:
    """Sign a file with the secret key of this fingerprint or address; return the signature's file.

    GnuPG asks for the passphrase itself. Raises Refused without GnuPG, SystemFault when it fails.
    """
    made = file.with_name(f"{file.name}.asc")
    argv = [_program(), "--yes", "--armor", "--local-user", key, "--output", str(made)]
    done = shell.ask([*argv, "--detach-sign", str(file)])
    if done.code:
        raise SystemFault(f"gpg cannot sign with the key {key}", done.err)
    return made


def _program() -> str:
    gpg = shutil.which("gpg")
    if gpg is None:
        what = "gpg, which signs releases and checks them, is not on this machine"
        raise Refused(what, "", "apt-get install gnupg (dnf install gnupg2), or runner build cpu")
    return gpg
