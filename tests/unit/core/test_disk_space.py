"""What cannot be written: a full disk is told from what else the system says."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from runners.core import disk_space
from runners.core.errors import SystemFault


@pytest.mark.parametrize(
    ("number", "path", "what", "remedy"),
    [
        (errno.ENOSPC, "/s/images/a", "the disk became full: /s/images", disk_space.FREE_SPACE),
        (errno.EDQUOT, "/home/a b/x", "the disk became full: /home/a b", "df -h '/home/a b'"),
        (errno.EACCES, "/s/images/a", "cannot write /s/images/a", None),
    ],
)
def test_writing(
    number: int, path: str, what: str, remedy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNNER_SCRATCH", "/s")
    words = os.strerror(number)
    with pytest.raises(SystemFault) as raised, disk_space.writing(Path(path)):
        raise OSError(number, words)
    assert (raised.value.what, raised.value.evidence) == (what, words)
    assert [str(suggestion) for suggestion in raised.value.remedies] == ([remedy] if remedy else [])


def test_what_is_no_error_of_writing_stays() -> None:
    with pytest.raises(ValueError, match="a mistake"), disk_space.writing(Path("/x")):
        raise ValueError("a mistake")
