"""Where a server answers, by its private folder, and the ssh tunnel to it from elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from ..contract.run_files import ADDRESS, TOKEN
from ..core import files, quoting
from ..core.errors import SystemFault
from ..core.job_record import JobPaths

ACCESS, HERE = "access.txt", "127.0.0.1"


@dataclass(frozen=True)
class ServerAddress:
    """Where a session answers: the node's name, the address there, the port, the page to open."""

    host: str
    address: str
    port: int
    page: str
    loopback: bool


def token(paths: JobPaths) -> str:
    """Return the token of a session; raise SystemFault when it cannot be read."""
    try:
        return (paths.private / TOKEN).read_text(encoding="ascii")
    except OSError as error:
        raise SystemFault(
            f"cannot read {paths.private / TOKEN}", str(error), id="token-unreadable"
        ) from None


def address(paths: JobPaths) -> ServerAddress | None:
    """Return where the session answers; None before it does, and after its end."""
    facts = files.read_json(paths.private / ADDRESS)
    return ServerAddress(**facts) if facts else None


@dataclass(frozen=True)
class Way:
    """`ssh` is typed on one's own machine, "" where no tunnel is needed; then `url` is opened.

    `inside` is the address for a browser that runs within the cluster, "" where there is none.
    """

    ssh: str
    url: str
    inside: str = ""

    @property
    def lines(self) -> list[str]:
        """How to get there, in words."""
        on, opened, within = "on your own machine:", "open there:", "within the cluster:"
        steps = ((on, self.ssh), (opened, self.url), (within, self.inside))
        needed = [(where, action) for where, action in steps if action]
        wide = max(len(where) for where, _ in needed)
        return [f"{where:<{wide}}  {action}" for where, action in needed]


def way(server: ServerAddress, token: str, login: str, user: str, here: bool) -> Way:
    """Return the way to a session; `here` means that it runs on this machine without a scheduler.

    The port is the same at both ends: it was chosen at random, so that sessions seldom collide.
    """
    query = f"{server.page}?token={quote(token)}"
    url = f"http://{HERE}:{server.port}{query}"
    if here and server.loopback:
        return Way("", url)
    address = f"[{server.address}]" if ":" in server.address else server.address
    target = f"{server.port}:{address}:{server.port}"
    if server.loopback:
        hop = ["-J", f"{user}@{login}", "-L", target, f"{user}@{server.host}"]
        return Way(quoting.join(["ssh", "-N", *hop]), url)
    inside = f"http://{server.host}:{server.port}{query}"
    return Way(quoting.join(["ssh", "-N", "-L", target, f"{user}@{login}"]), url, inside)
