"""What a job executes is for its owner alone, whatever the umask; what it logs is as the umask."""

from __future__ import annotations

import pytest

from tests.real.conftest import IMAGE, Login

from .conftest import Stranger

EXECUTED = "runs/*/code runs/*/job.sbatch runs/*/plan.json runs/*/private"
# Python makes these within code/, which is closed to others.
NO_CACHES = "! -path '*/__pycache__*'"
ALONE = ("--image", IMAGE, "--controller", "none", "--no-gate")


def launch(login: Login, before: str, *words: str) -> int:
    """Run `runner launch` in a shell after another command of it; return its exit code."""
    command = ["bash", "-c", f'{before}; runner launch "$@"', "bash", *ALONE, *words]
    return login.run(*command).returncode


@pytest.mark.parametrize(("umask", "log"), [("000", "666"), ("002", "664"), ("022", "644")])
def test_only_the_owner_writes_what_a_job_executes(
    login: Login, bob: Stranger, umask: str, log: str
) -> None:
    script = login.write("t.py", "print('HERE')")
    words = ("--nodes", "2", "--env", "TOKEN=x", script)
    assert launch(login, f"umask {umask}", "--wait", *words) == 0
    assert launch(login, f"umask {umask}", "--array", "0-1", "--parsable", *words) == 0
    assert login.sh(f"find {EXECUTED} {NO_CACHES} -perm /077") == ""
    assert login.sh(f"find runs {NO_CACHES} -type d -perm /022") == ""
    assert login.sh("stat -c %a runs/t-1/logs/job.log").strip() == log
    login.sh("chmod 755 .")
    for attack in (
        "echo evil >> job.sbatch",
        "cat code/enter",
        "mv code other",
        "mv logs other",
        "ln -s /etc/passwd failures",
        "mv ../t-1 ../other",
    ):
        assert bob.run("sh", "-c", f"cd {login.folder}/runs/t-1 && {attack}").returncode != 0
    assert login.sh("cat runs/t-1/logs/job.log").count("HERE") == 2
