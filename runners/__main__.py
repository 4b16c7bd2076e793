"""`python -m runners` is `runner`."""

from __future__ import annotations

import signal


def main() -> None:
    """Run the command; until it has begun, Ctrl-C ends it without a word."""
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from .cli import main as command

    command()


if __name__ == "__main__":
    main()
