"""Whether a server answers: to who has the token, and not to others."""

from __future__ import annotations

import http.client

SECONDS = 5.0


def status(address: str, port: int, path: str, token: str = "") -> int | None:
    """Return the HTTP status of a page; None while nobody answers there.

    It is asked for as through a tunnel: Jupyter refuses other addresses as the name of its host.
    """
    headers = {"Host": f"127.0.0.1:{port}"}
    if token:
        headers["Authorization"] = f"token {token}"
    connection = http.client.HTTPConnection(address, port, timeout=SECONDS)
    try:
        connection.request("GET", path, headers=headers)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def keeps_out(address: str, port: int, path: str) -> bool:
    """Whether the page is refused to who has no token."""
    return status(address, port, path) in (401, 403)
