"""The image was written over while its ranks ran: what they had not read yet is another file's."""

from __future__ import annotations

import re
import signal

from ..core.job_record import JobState
from .explanation import Finding, Signature
from .facts import Facts
from .finding_helpers import AGAIN, likely, signal_of, who

# What reading from it leads to: a fault of the memory it is mapped to, or files that are not there
SIGNS = re.compile(
    r"Bus error|No module named|ImportError|Input/output error|bad marshal data|"
    r"shared object|invalid ELF|No such file"
)


def overwritten(facts: Facts) -> Finding | None:
    """The image is newer than the job, and the first rank could not read from it."""
    first = facts.first
    if not facts.image_newer or facts.state != JobState.FAILED or first is None:
        return None
    words = first.how if facts.record is None else facts.error
    if signal_of(facts) != signal.SIGBUS and not SIGNS.search(words):
        return None
    return likely(
        facts,
        f"the image {facts.image} was written over after the job was submitted, and {who(facts)} "
        f"could not read what it was before: {first.how}",
        AGAIN,
        because="the image is newer than the job; `mv new.sif old.sif` instead of `cp` would have "
        "left the running ranks the old one",
    )


SIGNATURES = (Signature("image-overwritten", overwritten),)
