"""A table of cases as one test, which names all that fail.

A test of its own for each case costs more in pytest than most cases in what they test. What starts
programs or waits is better a test for each (`pytest.mark.parametrize`): workers share those.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import wraps
from inspect import signature
from pathlib import Path
from traceback import format_exc
from typing import Any, Callable

import pytest

Check = Callable[..., None]


def each(*cases: Any) -> Callable[[Check], Check]:
    """Make one test of a check, which is called with each case: a tuple of arguments, or one.

    The cases may be a mapping's values, and then have its names. A check whose first parameter is
    tmp_path gets a folder of its own for each.
    """
    named = len(cases) == 1 and isinstance(cases[0], Mapping)
    table = [*cases[0].items()] if named else [("", case) for case in cases]
    assert table, "a test of no cases cannot fail"

    def made(check: Check) -> Check:
        own = signature(check)
        fixtures = [one for name, one in own.parameters.items() if name == "tmp_path"]
        alone = len(own.parameters) == len(fixtures) + 1

        @wraps(check)
        def test(**folders: Path) -> None:
            failed = []
            for number, (name, case) in enumerate(table):
                own_folders = [folder / str(number) for folder in folders.values()]
                for folder in own_folders:
                    folder.mkdir()
                try:
                    with suppress(pytest.skip.Exception):
                        check(*own_folders, *((case,) if alone else case))
                except (Exception, pytest.fail.Exception):
                    failed.append(f"{name or repr(case)}: {format_exc()}")
            assert not failed, "\n\n".join(failed)

        test.__signature__ = own.replace(parameters=fixtures)  # type: ignore[attr-defined]
        return test

    return made
