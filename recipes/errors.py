"""What a trainer ends with, and why."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

#: All ranks stopped early on a signal, their work is saved: the run can be continued.
EXIT_SAVED = 91


class UserError(Exception):
    """Something the user can mend: a bad option or bad data. Told once, without a traceback."""

    exit_code = 2


class Diverged(UserError):
    """The loss is no longer a number: the options were legal, the training failed."""

    exit_code = 1


class NotSaved(UserError):
    """The state of a run that has to stop could not be written."""

    exit_code = 1


@contextlib.contextmanager
def reading(what: object) -> Iterator[None]:
    """Raise `UserError` where the system cannot read `what`, a path mostly."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot read {what}: {error.strerror}") from error


def require_folder(root: Path) -> None:
    """Raise `UserError` unless the data folder is there."""
    if not root.is_dir():
        raise UserError(f"the data folder {root} does not exist or is not a folder.")
