"""What cannot be written: a full disk is told from what else the system says."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from runners.core import disk_space

from .. import sentences


@pytest.mark.parametrize(
    ("number", "path", "told"),
    [
        (errno.ENOSPC, "/s/images/a", ("disk-full", disk_space.FREE_SPACE)),
        (errno.EDQUOT, "/home/a b/x", ("disk-full", "df -h '/home/a b'")),
        (errno.EACCES, "/s/images/a", ("file-not-written",)),
    ],
)
def test_writing(
    number: int, path: str, told: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNNER_SCRATCH", "/s")
    words = os.strerror(number)
    with sentences.raises(*told) as raised, disk_space.writing(Path(path)):
        raise OSError(number, words)
    assert raised.value.evidence == words
    assert len(raised.value.remedies) == len(told) - 1


def test_what_is_no_error_of_writing_stays() -> None:
    with pytest.raises(ValueError, match="a mistake"), disk_space.writing(Path("/x")):
        raise ValueError("a mistake")
