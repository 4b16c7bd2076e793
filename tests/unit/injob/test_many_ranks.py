"""What a rank needs where there are very many of them: open files, and descriptors above 1,023."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runners.injob.rank import rank_environment

from .test_rendezvous import World, ask, request, together

ROOT = Path(__file__).parents[3]
HARD = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
SELECT = 1024  # descriptors that select(2) knows
LIMITED = """
import json, resource, sys
from runners.injob.rank import rank_environment
soft, hard, ranks = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
rank_environment.allow_files(ranks)
print(json.dumps(resource.getrlimit(resource.RLIMIT_NOFILE)))
"""


@pytest.mark.parametrize(
    ("soft", "hard", "ranks", "after"),
    [
        (512, 1800, 64, 1152),
        (1024, 1800, 1024, 1800),  # the hard limit is the site's word
        (1500, 1800, 64, 1500),  # never less than there was
    ],
)
def test_the_soft_limit_of_open_files_follows_the_ranks(
    soft: int, hard: int, ranks: int, after: int
) -> None:
    argv = [sys.executable, "-c", LIMITED, *map(str, (soft, hard, ranks))]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=ROOT, check=True)
    assert json.loads(done.stdout) == [after, hard]


@pytest.fixture
def crowded() -> Iterator[None]:
    """Hold all descriptors that select(2) knows, as rank 0 of so many ranks does."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if HARD != resource.RLIM_INFINITY and HARD < 2 * SELECT:
        pytest.skip(f"the hard limit of open files is {HARD}")
    rank_environment.allow_files(SELECT)
    held = [os.open(os.devnull, os.O_RDONLY)]
    while held[-1] < SELECT:
        held.append(os.dup(held[0]))
    yield
    for number in held:
        os.close(number)
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("crowded")
def test_ranks_meet_where_descriptors_are_above_1023() -> None:
    world = World(2)
    stores = [world.store(rank) for rank in range(2)]
    assert [one["problem"] for one in together(stores)] == [None, None]
    assert stores[1].sock.fileno() > SELECT
    request(stores[0], "PUT", f"{stores[0].prefix}global/0", b"\0value")
    request(stores[1], "PUT", f"{stores[1].prefix}global/1", b"\0value")
    assert ask(stores[1], f"{stores[1].prefix}global/0") == (200, b"\0value")
