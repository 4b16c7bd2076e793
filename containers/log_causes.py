"""Says in plain words why a build failed, from its log."""

from __future__ import annotations

import re
from typing import NamedTuple

LAST_LINES = 25


class Cause(NamedTuple):
    pattern: str
    words: str
    remedy: str


MORE_IDS = """\
An administrator can give you more: sudo usermod --add-subuids 100000-165535 \\
    --add-subgids 100000-165535 USER"""
CAUSES = (
    Cause(
        r"No space left on device|Disk quota exceeded",
        "the disk is full",
        "Free some space there or name another place: RUNNER_SCRATCH=<folder>, --output FILE",
    ),
    Cause(
        r"DO NOT MATCH THE HASHES|Hash Sum mismatch|computed checksum did NOT match",
        "a file is not the one that the lock names: its hash differs",
        "Do not use it. Fetch it again, from another index or folder if it stays so.",
    ),
    Cause(
        r"No matching distribution found for \S+",
        "a package is not where pip looks",
        "Name an index with --index-url, or a folder with --wheelhouse.",
    ),
    Cause(
        r"E: Unable to locate package \S+",
        "apt knows no package of that name",
        "Write 'apt-get update' before it in the same definition, and check the name. An image of"
        " ours has the archive of this machine's apt sources, or of RUNNER_DEBIAN_MIRROR.",
    ),
    Cause(
        r"certificate verify failed|SSL certificate problem|x509: certificate|"
        r"Certificate verification failed",
        "a server's certificate is not trusted",
        "With a site's own authority: --ca-certificate FILE",
    ),
    Cause(
        r"Could not resolve|Temporary failure (?:resolving|in name resolution)|no such host",
        "a server's name is not known here: is there a network, and does it need a proxy?",
        "export https_proxy=..., or build where the network is.",
    ),
    Cause(
        r"unauthorized|authentication required|401 Unauthorized|denied: requested access",
        "the registry wants another user or password, or has no such image",
        "apptainer registry login --username NAME docker://HOST",
    ),
    Cause(
        r"manifest unknown|MANIFEST_UNKNOWN|manifest for .* not found",
        "the registry has no image of that name and tag",
        "Check the line 'From:'.",
    ),
    Cause(
        r"connection refused|Connection timed out|i/o timeout|Unable to connect",
        "a server does not answer",
        "Try again later, or another server or mirror.",
    ),
    Cause(
        r"exec format error|Exec format error|architecture \(\S+\) could not run on the host",
        "programs of the image are for another architecture than this machine",
        "Use a base for this machine, or build on a machine of the image's kind.",
    ),
    Cause(
        r"qemu: uncaught target signal",
        "the emulator crashed, or what it emulates did",
        "Try a newer qemu-user: 7.2 (Debian 12) crashes in torch 2.13 for Arm, 11.1 does not.",
    ),
    Cause(
        r"fakeroot: \d+: \w+: not found|fakeroot: error while starting|"
        r"libfakeroot\S*:.*(?:cannot|version|not found)",
        "this machine's fakeroot program, which stands in for subordinate ids, does not run in the"
        " image",
        MORE_IDS,
    ),
    Cause(
        r"(?:chown|chgrp|changing ownership|set\w+ids?|seteuid).*Invalid argument",
        "a program gives a file to another user, and this way of building has only one",
        MORE_IDS,
    ),
    Cause(
        r"fatal error: Killed|signal: killed|Cannot allocate memory|out of memory",
        "a program was ended for want of memory",
        "Build on a machine, or in a job, with more memory.",
    ),
)
ERROR = re.compile(
    r"^(?:FATAL|ERROR|E:|error:|ERROR:|fatal:|CMake Error)|: (?:fatal )?error:|Error:"
    r"|command not found"
)
# Apptainer, and pip after a compiler, close with lines that often only say that a build failed.
CLOSING = re.compile(
    "While performing build|Failed building wheel|Failed to build|subprocess-exited-with-error"
    r"|CalledProcessError|^except "
)
CMAKE_MESSAGE = "(message):"  # the line after this one says what
FRAME = re.compile(r"INFO|FATAL|WARNING")


def explain(log: str) -> str:
    """The cause in words with its line and remedy, else the line that most likely says it."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    for line in reversed(lines):
        for cause in CAUSES:
            if re.search(cause.pattern, line, re.IGNORECASE):
                return f"{cause.words}\n  | {line[:300]}\n{cause.remedy}"
    return _likely([line for line in lines if ERROR.search(line)], lines)


def _likely(errors: list[str], lines: list[str]) -> str:
    reasons = [line for line in errors if not CLOSING.search(line)]
    if errors and not reasons:
        named = [line for line in errors if "exit status" not in line]
        reasons = named or [line for line in lines if not FRAME.match(line)] or errors
    if not reasons:
        return ""
    at = len(lines) - lines[::-1].index(reasons[-1])
    reason = lines[at - 1 : at + lines[at - 1].endswith(CMAKE_MESSAGE)]
    return "\n".join(f"  | {line[:300]}" for line in reason)


def last_lines(log: str, count: int = LAST_LINES) -> str:
    return "\n".join(f"  | {line}" for line in log.splitlines()[-count:])
