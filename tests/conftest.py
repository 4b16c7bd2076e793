"""All tests start from the same signals."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
from collections.abc import Iterator

import hypothesis
import pytest
from hypothesis.internal.conjecture import providers

# Bytecode is kept, also where the machine says otherwise: without it each of a thousand processes
# compiles all that it imports, which makes the tests half as fast.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Modules and tests stay until the end: to look again and again for garbage among them takes a
# fifth of the tests' time.
gc.disable()

# The same inputs each time, so that a change is what fails, and a quarter of a second for a test;
# whichever modules are loaded, whose constants would be inputs too, and are half a second to find.
hypothesis.settings.register_profile(
    "bounded", derandomize=True, database=None, deadline=None, max_examples=50
)
hypothesis.settings.load_profile("bounded")
assert hasattr(providers, "_get_local_constants"), "another Hypothesis: see what it calls it now"
providers._get_local_constants = lambda: providers._local_constants


def pytest_configure() -> None:
    """Undo what `nohup` and a shell's `&` pass on: signals ignored in all programs started here."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """From here on, garbage is looked for among what tests make."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What `runner` remembers of a user's runs is not the developer's own.

    What Python has compiled of files that tests wrote is of no use to the next tests.
    """
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))
    yield
    if sys.pycache_prefix:
        compiled = f"{sys.pycache_prefix}{tmp_path_factory.getbasetemp()}"
        shutil.rmtree(compiled, ignore_errors=True)
