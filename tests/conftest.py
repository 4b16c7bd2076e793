"""All tests start from the same signals."""

from __future__ import annotations

import signal


def pytest_configure() -> None:
    """Undo what `nohup` and a shell's `&` pass on: signals ignored in all programs started here."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
