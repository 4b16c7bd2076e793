"""What long work reports its progress to; the command line decides how that looks."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext


class Progress:
    """Told of each step; `total` and `done` are bytes, `total` None where nobody knows.

    This one says nothing.
    """

    def say(self, text: str) -> None:
        """Tell one thing that stays to be read."""

    def begin(self, step: str, total: int | None = None) -> None:
        """A step begins; it ends with the next one."""

    def at(self, done: int) -> None:
        """So much of the step is done."""


class Listener:
    """Told what a launch does before it submits. This one says nothing."""

    def tell(self, text: str) -> None:
        """Tell one thing that stays to be read."""

    def progress(self) -> AbstractContextManager[Progress]:
        """Show work that counts bytes."""
        return nullcontext(Progress())
