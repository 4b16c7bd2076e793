"""A table of cases as one test, which names all that fail.

A test of its own for each case costs more in pytest than most cases in what they test.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable


def each(table: Mapping[str, Any]) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """Make a test of a check, called with each value of the table: a tuple of arguments, or one."""

    def made(check: Callable[..., None]) -> Callable[[], None]:
        def test() -> None:
            failed = []
            for name, case in table.items():
                try:
                    check(*(case if isinstance(case, tuple) else (case,)))
                except Exception as error:
                    failed.append(f"{name}: {type(error).__name__}: {error}")
            assert not failed, "\n\n".join(failed)

        test.__doc__ = check.__doc__
        return test

    return made
