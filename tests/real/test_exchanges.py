"""What Horovod with our edits exchanges is right: any number of ranks, any order, early leavers."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Login, succeeded

pytestmark = pytest.mark.unpacked

SCRIPT = Path(__file__).parent / "worlds" / "exchanges.py"


# Seven are no power of two, and with seven the release crashed after hvd.join().
@pytest.mark.parametrize(("controller", "ranks"), [("gloo", 7), ("mpi", 3)])
def test_every_exchange_is_right(login: Login, controller: str, ranks: int) -> None:
    login.write("exchanges.py", SCRIPT.read_text(encoding="utf-8"))
    words = ["--nodes", "2", "--ntasks", str(ranks), "--overcommit", "--controller", controller]
    done = succeeded(login.launch(*words, "--follow", "--all", "exchanges.py"))
    assert done.stdout.count("| exchanged") == ranks, done.stdout
    assert f"one world of {ranks} ranks" in done.stdout
