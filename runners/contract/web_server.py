"""Asks a web server of a job for a page."""

from __future__ import annotations

import http.client

SECONDS = 5.0


def http_status(address: str, port: int, path: str, token: str = "") -> int | None:
    """Return the HTTP status of a page; None without an answer.

    The Host header is that of a tunnel: Jupyter refuses other addresses there.
    """
    headers = {"Host": f"127.0.0.1:{port}"}
    headers.update({"Authorization": f"token {token}"} if token else {})
    connection = http.client.HTTPConnection(address, port, timeout=SECONDS)
    try:
        connection.request("GET", path, headers=headers)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
