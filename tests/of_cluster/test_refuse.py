"""A program that the kernel refuses namespaces, as far as that shows without a cluster."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.cluster.state import CHECKOUT

NEWUSER, ENOSPC = "10000000", "28"
REFUSE = [sys.executable, str(CHECKOUT / "tests/cluster/refuse.py"), NEWUSER, ENOSPC]


@pytest.mark.skipif(os.geteuid() != 0, reason="a filter needs root")
def test_what_it_starts_has_none_and_all_else_works() -> None:
    script = "unshare --user true; unshare --mount echo mounts; python3 -c 'import os; os.fork()'"
    done = subprocess.run([*REFUSE, "sh", "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "mounts\n")
    assert done.stderr == "unshare: unshare failed: No space left on device\n"
