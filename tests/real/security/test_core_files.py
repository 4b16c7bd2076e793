"""A rank that crashes leaves its memory in no file, unless its user wants it."""

from __future__ import annotations

import pytest

from tests.real.conftest import Login

from .test_permissions import launch

ABORTS = "import os; os.abort()"


@pytest.mark.parametrize(("asked", "files"), [((), 0), (("--sbatch-arg=--propagate=CORE",), 1)])
def test_core_files_only_where_they_are_asked_for(
    login: Login, asked: tuple[str, ...], files: int
) -> None:
    script = login.write("t.py", ABORTS)
    assert launch(login, "ulimit -c unlimited", "--wait", *asked, script) != 0
    assert len(login.sh("find . -maxdepth 1 -name 'core*'").split()) == files
