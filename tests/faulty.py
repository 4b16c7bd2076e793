"""A web server with faults, for downloads: each first part of a path is one of them.

    python3 faulty.py FOLDER [LOG]

Serves the files of FOLDER under `/ok/`, `/plain/` (no ranges, no ETag), `/cut/` (each connection
ends after a third of what it was to send), `/wrong/` (the last byte is another), `/missing/`,
`/error/`, `/redirect/`, `/slow/`, `/other/` (shorter), `/changed/` (cut once, then another ETag).
Prints its port. `requests` keeps what was asked, with the Range.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path

TAGS = count()


class Faulty(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"

    def __init__(self, folder: Path, log: list[str], *more: object) -> None:
        self.folder, self.requests = folder, log
        super().__init__(*more)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        """Answer with a file, or with the fault."""
        _, fault, name = self.path.split("/", 2)
        self.requests.append(f"{fault} {name} {self.headers.get('Range', '')}".strip())
        print(self.requests[-1], flush=True)
        if fault in ("missing", "error"):
            self.send_error(404 if fault == "missing" else 500)
        elif fault == "redirect":
            self._head(302, 0, {"Location": f"/ok/{name}"})
        else:
            self._file(fault, (self.folder / name).read_bytes())

    def _file(self, fault: str, data: bytes) -> None:
        data = data[:-1] + bytes([data[-1] ^ 1]) if fault == "wrong" else data
        data = data[:-5] if fault == "other" else data
        tag = f'"{next(TAGS)}"' if fault == "changed" else '"one"'
        start = self._start(fault, tag)
        extra = {} if fault == "plain" else {"ETag": tag, "Accept-Ranges": "bytes"}
        if start >= len(data):
            self._head(416, 0, {"Content-Range": f"bytes */{len(data)}"})
            return
        if start:
            extra["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        self._head(206 if start else 200, len(data) - start, extra)
        self._body(fault, data[start:])

    def _start(self, fault: str, tag: str) -> int:
        asked = self.headers.get("Range", "")
        same = self.headers.get("If-Range", tag) == tag
        return int(asked[len("bytes=") : -1]) if asked and same and fault != "plain" else 0

    def _head(self, code: int, length: int, headers: dict[str, str]) -> None:
        self.send_response(code)
        for name, value in {**headers, "Content-Length": str(length)}.items():
            self.send_header(name, value)
        self.end_headers()

    def _body(self, fault: str, data: bytes) -> None:
        if fault == "cut" or (fault == "changed" and len(self.requests) == 1):
            self.wfile.write(data[: -(-len(data) // 3)])
            self.close_connection = len(data) > 2
            if not self.close_connection:
                self.wfile.write(data[-(-len(data) // 3) :])
            return
        step = len(data) // 10 + 1 if fault == "slow" else len(data)
        for at in range(0, len(data), step):
            time.sleep(0.1 if fault == "slow" else 0)
            self.wfile.write(data[at : at + step])

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing beyond what `requests` has."""


def server(folder: Path, log: list[str]) -> ThreadingHTTPServer:
    """Return a server on a free port of the loopback, not started yet."""
    return ThreadingHTTPServer(("127.0.0.1", 0), partial(Faulty, folder, log))


if __name__ == "__main__":
    here = server(Path(sys.argv[1]), [])
    print("port", here.server_address[1], flush=True)
    here.serve_forever()
