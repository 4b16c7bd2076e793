"""Servers on the login node's own loopback for the tests of pull and push, and images for them."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from .conftest import Login

USER, PASSWORD = "ada", "correct-horse-battery"
# Of the login node's own files: an image with Python, enough for a trainer, an image with a shell,
# and that one's tree, which takes its room and cannot be compressed.
MAKE_IMAGE = """
python=$(basename "$(readlink -f /usr/bin/python3)")
mkdir -p root/bin root/tmp root/usr/bin root/usr/lib
cp -a /usr/bin/python3 "/usr/bin/$python" root/usr/bin/
cp -a "/usr/lib/$python" root/usr/lib/
cp --parents -L $(ldd "/usr/bin/$python" | grep -o '/[^ ]*') root/
rm -rf "root/usr/lib/$python"/{test,ensurepip,idlelib,pydoc_data,lib2to3}
apptainer build --mksquashfs-args "-Xcompression-level 1" python.sif root
mkdir -p small/bin small/tmp
cp -L /bin/sh small/bin/
cp --parents -L $(ldd /bin/sh | grep -o '/[^ ]*') small/
apptainer build other.sif small
head -c 20000000 /dev/urandom > small/noise
"""


@dataclass
class Server:
    """A process on the login node with what it wrote, and where it listens."""

    home: Login
    name: str
    pid: str
    port: int

    @property
    def host(self) -> str:
        """Host and port, as in a reference."""
        return f"127.0.0.1:{self.port}"

    def log(self) -> str:
        """Return what the server has written."""
        return self.home.sh(f"cat {self.name}.log")

    def requests(self, words: str) -> int:
        """Return how many requests of its log hold these words."""
        return sum(words in line for line in self.log().splitlines())

    def kill(self) -> None:
        """End it at once, with the `timeout` above it; nothing if it has ended."""
        self.home.sh(f"kill -9 -- -{self.pid} 2>/dev/null || true")


def start(home: Login, name: str, command: str, port_of: str) -> Server:
    """Start a command in the background; `port_of` is a script that prints its port, or nothing.

    `timeout` ends it even when the tests are killed.
    """
    pid = home.sh(f"timeout 1800 {command} > {name}.log 2>&1 & echo $!").strip()
    try:
        for _ in range(100):
            port = home.sh(f"{port_of} || true").strip()
            if port:
                return Server(home, name, pid, int(port))
            time.sleep(0.05)
        raise AssertionError(f"{name} did not start: " + home.sh(f"cat {name}.log"))
    except BaseException:
        home.sh(f"kill -9 -- -{pid} || true")
        raise


@contextmanager
def registry(home: Login, name: str, extra: str = "") -> Iterator[Server]:
    """Run Debian's docker-registry on a free port, with `extra` lines of YAML."""
    home.write(
        f"{name}.yml",
        f"""version: 0.1
log: {{level: info, accesslog: {{disabled: false}}}}
storage: {{filesystem: {{rootdirectory: {home.folder}/{name}}}, delete: {{enabled: true}}}}
{extra or "http: {addr: '127.0.0.1:0'}"}""",
    )
    port_of = f"sed -n 's/.*listening on .*:\\([0-9]*\\).*/\\1/p' {name}.log"
    server = start(home, name, f"docker-registry serve {name}.yml", port_of)
    try:
        yield server
    finally:
        server.kill()


@contextmanager
def relay(home: Login, target: Server, limit: int) -> Iterator[Server]:
    """Run a relay that stops after `limit` bytes of an answer; with the file relay/cut it cuts."""
    home.sh("rm -rf relay; mkdir relay")
    command = f"python3 /opt/kit/tests/real/relay.py {target.port} {limit} relay"
    server = start(home, "relay.out", command, "cat relay/port 2>/dev/null")
    try:
        yield server
    finally:
        server.kill()


@contextmanager
def website(home: Login, folder: str, *options: str) -> Iterator[Server]:
    """Serve a folder over http; `options` are more of http.server's."""
    words = ["--bind", "127.0.0.1", "--directory", folder, *options, "0"]
    command = f"python3 -u -W ignore -m http.server {shlex.join(words)}"
    server = start(
        home, "web", command, "sed -n 's/.* port \\([0-9]*\\).*/\\1/p' web.log | head -1"
    )
    try:
        yield server
    finally:
        server.kill()
