"""What the shim corrects in the environment that it gets, and files that very many ranks open."""

from __future__ import annotations

import getpass
import json
import os
import pwd
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runners.injob.rank import rank_environment, startup

from .test_gate import run
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


def test_rank_0_alone_says_that_the_ranks_use_another_temporary_folder(tmp_path: Path) -> None:
    text = "import os, tempfile; print('in', os.environ.get('TMPDIR'), tempfile.gettempdir())"
    code, out = run(tmp_path, text, "--no-gate", TMPDIR="/nowhere/at all")
    assert code == 0, out
    assert out.count("TMPDIR=/nowhere/at all is no folder") == 1, out
    assert out.count("| in /tmp/runner-") == 2, out


def test_the_trainers_folder_is_known_where_the_runtime_lost_it() -> None:
    env: dict[str, str] = {}
    rank_environment.settle("/scratch/runs/a-1", env)
    assert env["OUTPUT_DIR"] == "/scratch/runs/a-1"
    own = {"OUTPUT_DIR": "/mine"}
    rank_environment.settle("/scratch/runs/a-1", own)
    assert own["OUTPUT_DIR"] == "/mine"


def test_a_user_whom_the_container_does_not_know_has_a_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unknown(uid: int) -> pwd.struct_passwd:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    for name in ("USER", "LOGNAME", "LNAME", "USERNAME", startup.NAMELESS):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.setenv("SLURM_JOB_USER", "ada")
    monkeypatch.setenv("HOME", "/home/ada")
    startup.complete_pwd()
    with pytest.raises(KeyError):
        pwd.getpwuid(os.getuid())
    environment = dict(os.environ)
    rank_environment.settle("/run", environment)
    monkeypatch.setattr(os, "environ", environment)
    startup.complete_pwd()
    entry = pwd.getpwuid(os.getuid())
    assert (entry.pw_name, entry.pw_dir, getpass.getuser()) == ("ada", "/home/ada", "ada")
    with pytest.raises(KeyError):
        pwd.getpwuid(os.getuid() + 1)


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
        pytest.skip(f"the hard limit of open files, {HARD}, is below {2 * SELECT}")
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
    stores = [world.proxy(rank) for rank in range(2)]
    assert [answer["problem"] for answer in together(stores)] == [None, None]
    assert stores[1].sock.fileno() > SELECT
    request(stores[0], "PUT", f"{stores[0].prefix}global/0", b"\0value")
    request(stores[1], "PUT", f"{stores[1].prefix}global/1", b"\0value")
    assert ask(stores[1], f"{stores[1].prefix}global/0") == (200, b"\0value")


@pytest.mark.parametrize(
    ("given", "added"),
    [
        ({}, {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "4321"}),
        ({"MASTER_PORT": "29500"}, {"MASTER_ADDR": "10.0.0.1"}),
        ({"MASTER_ADDR": "n7"}, {"MASTER_PORT": "4321"}),
        ({"MASTER_ADDR": "n7", "MASTER_PORT": "29500"}, {}),
    ],
)
def test_half_of_the_users_master_address_is_filled_in(
    given: dict[str, str], added: dict[str, str]
) -> None:
    assert rank_environment.master("10.0.0.1", 4321, "", given) == added
