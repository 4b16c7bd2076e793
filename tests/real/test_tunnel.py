"""The tunnel to JupyterLab, as it is printed: OpenSSH to the login node, whose sshd is real.

The own machine is a node that does not run the job.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests import documents
from tests.cluster import nodes
from tests.cluster.design import CONTROLLER
from tests.cluster.state import State

from .conftest import Done, Login, on_cluster, succeeded
from .test_inside import documented, session

HERE, PAGE = "n2", "jupyter-config-data"  # what JupyterLab's page begins with
GUIDE = documents.ROOT / "docs" / "guides" / "interactive.md"
KEY = """
umask 077; mkdir ~/.ssh; cd ~/.ssh
ssh-keygen -q -t ed25519 -N '' -f id_ed25519; cp id_ed25519.pub authorized_keys
echo "login $(cat /etc/ssh/ssh_host_ed25519_key.pub)" > known_hosts
"""
GET = "curl --silent --location --cookie-jar - --max-time 20 {}"


@contextmanager
def started(argv: list[str], node: str, user: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command on a node meanwhile."""
    entering = nodes.enter_argv(State.locate(), node, argv, user)
    process = subprocess.Popen(entering, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
def sshd() -> Iterator[None]:
    """The login node's; ada has a key, and a password that is none."""
    succeeded(on_cluster(["bash", "-c", KEY]))
    prepared = "rm -f /var/log/sshd.log; mkdir -p /run/sshd; usermod --password '*' ada"
    succeeded(on_cluster(["bash", "-c", prepared], user="root"))
    try:
        with started(["/usr/sbin/sshd", "-D", "-E", "/var/log/sshd.log"], CONTROLLER, "root"):
            yield
    finally:
        on_cluster(["rm", "-rf", "/home/ada/.ssh"])


def at_home(*argv: str) -> Done:
    return on_cluster([*argv], node=HERE)


def page_of(url: str) -> str:
    """Fetch a page on the own machine, while a tunnel may still be opening."""
    for _ in range(50):
        done = at_home("bash", "-c", GET.format(shlex.quote(url)))
        if done.returncode != 7:  # refused: nothing listens yet
            return done.stdout
        time.sleep(0.1)
    return ""


def logins() -> int:
    """Return how often ada has logged in."""
    log = on_cluster(["cat", "/var/log/sshd.log"], user="root").stdout
    return len(re.findall("Accepted publickey for ada from", log))


@pytest.mark.usefixtures("sshd")
def test_the_printed_line_leads_to_the_page(login: Login) -> None:
    facts = session(login, *documented("jupyter --image [^ ]*$"), "-w", "n1")
    assert re.fullmatch(r"ssh -N -L (\d+):(\S+):\1 ada@login", facts["ssh"])
    url = facts["url"]
    assert at_home("curl", "--silent", url).returncode == 7, "without a tunnel nothing listens"
    with started(shlex.split(facts["ssh"]), HERE, "ada"):
        assert PAGE in page_of(url)
    assert logins() == 1
    assert at_home("curl", "--silent", url).returncode == 7
    one_login_serves_it_too(facts["ssh"], url)
    login.runner("cancel", facts["id"])


def one_login_serves_it_too(tunnel: str, url: str) -> None:
    """By the three lines of the guide, where each login asks for a one-time password."""
    lines = re.findall(r"`(Control\w+ [^`]+)`", GUIDE.read_text())
    assert len(lines) == 3
    config = "\n".join(["Host login", *lines])
    at_home("bash", "-c", f"echo {shlex.quote(config)} > ~/.ssh/config")
    succeeded(at_home("ssh", "ada@login", "true"))
    assert logins() == 2
    try:
        with started(shlex.split(tunnel), HERE, "ada"):
            assert PAGE in page_of(url)
        assert logins() == 2
    finally:
        at_home("ssh", "-O", "exit", "ada@login")
