"""All tests start from the same signals."""

from __future__ import annotations

import os
import signal
import sys

import hypothesis
import pytest

# Bytecode is kept, also where the machine says otherwise: without it each of a thousand processes
# compiles all that it imports, which makes the tests half as fast.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# The same inputs each time, so that a change is what fails, and a quarter of a second for a test.
hypothesis.settings.register_profile(
    "bounded", derandomize=True, database=None, deadline=None, max_examples=50
)
hypothesis.settings.load_profile("bounded")


def pytest_configure() -> None:
    """Undo what `nohup` and a shell's `&` pass on: signals ignored in all programs started here."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What `runner` remembers of a user's runs is not the developer's own."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))
