"""Runs a cell in a new kernel of a Jupyter server, and prints what it prints: URL TOKEN CODE.

It is run in the image, which has what it imports; the token comes by standard input.
"""

from __future__ import annotations

import json
import sys
import urllib.request
import uuid

import websocket

SECONDS = 60


def main() -> int:
    """Start a kernel, run the code, print its output; 1 if the code failed."""
    server, code = sys.argv[1:3]
    token = sys.stdin.readline().strip()
    headers = {"Authorization": f"token {token}", "Host": "127.0.0.1"}
    asked = urllib.request.Request(f"{server}/api/kernels", b"{}", headers, method="POST")
    with urllib.request.urlopen(asked, timeout=SECONDS) as answer:
        kernel = json.load(answer)["id"]
    address = server.replace("http", "ws", 1) + f"/api/kernels/{kernel}/channels"
    line = f"Authorization: token {token}"
    channel = websocket.create_connection(
        address, timeout=SECONDS, header=[line], host="127.0.0.1", suppress_origin=True
    )
    request = uuid.uuid4().hex
    channel.send(json.dumps(_request(code, request)))
    return _until_idle(channel, request)


def _request(code: str, request: str) -> dict[str, object]:
    header = {
        "msg_id": request,
        "session": uuid.uuid4().hex,
        "username": "",
        "version": "5.3",
        "msg_type": "execute_request",
    }
    content = {"code": code, "silent": False, "store_history": False, "allow_stdin": False}
    return {
        "header": header,
        "parent_header": {},
        "metadata": {},
        "content": content,
        "channel": "shell",
        "buffers": [],
    }


def _until_idle(channel: websocket.WebSocket, request: str) -> int:
    """Print the output until the kernel is done with the request; return 1 when it failed.

    Output and answer come by two sockets of the kernel, in any order: `idle` ends the output.
    """
    failed, idle = None, False
    while failed is None or not idle:
        message = json.loads(channel.recv())
        kind, content = message["header"]["msg_type"], message["content"]
        if kind == "stream":
            sys.stdout.write(content["text"])
        if kind == "error":
            sys.stdout.write("\n".join(content["traceback"]))
        if kind == "execute_reply":
            failed = content["status"] != "ok"
        if kind == "status" and message["parent_header"].get("msg_id") == request:
            idle = content["execution_state"] == "idle"
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
