"""The ssh tunnel from the user's machine to a session on a node, and the URL to open. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from ...core import tokens
from ..private_folder import Address

HERE = "127.0.0.1"


@dataclass(frozen=True)
class Way:
    """`ssh` is typed on one's own machine, "" where no tunnel is needed; then `url` is opened.

    `inside` is the address for a browser that runs within the cluster, "" where there is none.
    """

    ssh: str
    url: str
    inside: str = ""

    def told(self) -> str:
        lines = ["On your own machine:", f"  {self.ssh}", "then open there:", f"  {self.url}"]
        if not self.ssh:
            lines = ["Open on this machine:", f"  {self.url}"]
        lines += ["In a browser within the cluster:", f"  {self.inside}"] if self.inside else []
        return "\n".join([*lines, ""])


def way(found: Address, token: str, login: str, user: str, here: bool) -> Way:
    """Return the way to a session; `here` means that it runs on this machine without a scheduler.

    The port is the same at both ends: it was chosen at random, so that sessions seldom collide.
    """
    query = f"{found.page}?token={quote(token)}"
    url = f"http://{HERE}:{found.port}{query}"
    if here and found.loopback:
        return Way("", url)
    address = f"[{found.address}]" if ":" in found.address else found.address
    target = f"{found.port}:{address}:{found.port}"
    if found.loopback:
        hop = ["-J", f"{user}@{login}", "-L", target, f"{user}@{found.host}"]
        return Way(tokens.join(["ssh", "-N", *hop]), url)
    inside = f"http://{found.host}:{found.port}{query}"
    return Way(tokens.join(["ssh", "-N", "-L", target, f"{user}@{login}"]), url, inside)
