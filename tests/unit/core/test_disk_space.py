"""What cannot be written: a full disk is told from what else the system says."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from runners.core import disk_space
from runners.core.errors import SystemFault


@pytest.mark.parametrize(
    ("number", "what", "remedy"),
    [
        (errno.ENOSPC, "the disk became full: /shared", disk_space.FREE_SPACE),
        (errno.EDQUOT, "the disk became full: /shared", disk_space.FREE_SPACE),
        (errno.EACCES, "cannot write /shared/images.lock", None),
    ],
)
def test_writing(number: int, what: str, remedy: str | None) -> None:
    words = os.strerror(number)
    with pytest.raises(SystemFault) as raised, disk_space.writing(Path("/shared/images.lock")):
        raise OSError(number, words)
    assert (raised.value.what, raised.value.evidence) == (what, words)
    assert [str(each) for each in raised.value.remedies] == ([remedy] if remedy else [])


def test_what_is_no_error_of_writing_stays() -> None:
    with pytest.raises(ValueError, match="a mistake"), disk_space.writing(Path("/x")):
        raise ValueError("a mistake")
