"""`python -m runners` is `runner`."""

from __future__ import annotations

import gc
import signal

# Imports make nothing to collect; with Python's threshold a dry run spent 5 % in looking for it.
OBJECTS = 100_000


def main() -> None:
    """Run the command; until it has begun, Ctrl-C ends it silently."""
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.set_threshold(OBJECTS)
    from .cli import main as command

    command()


if __name__ == "__main__":
    main()
