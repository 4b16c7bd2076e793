"""The two requests of a library's API that a pull makes, answered with one image, for any name.

    python3 library.py IMAGE

As the client in Apptainer 1.4 asks for them: /v1/images/ for the facts, /v1/imagefile/ for the
bytes; it does without /version and the hint where an OCI registry is. Prints its port.
"""

from __future__ import annotations

import hashlib
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Handler(BaseHTTPRequestHandler):
    """Knows one image."""

    def do_GET(self) -> None:
        image = Path(sys.argv[1]).read_bytes()
        facts = {"hash": f"sha256.{hashlib.sha256(image).hexdigest()}", "size": len(image)}
        answers = {
            "images": json.dumps({"data": {**facts, "uploaded": True}}).encode(),
            "imagefile": image,
        }
        body = answers.get(self.path.split("/")[2] if self.path.startswith("/v1/") else "")
        self.send_response(404 if body is None or "/absent" in self.path else 200)
        self.end_headers()
        self.wfile.write(body or b"{}")


if __name__ == "__main__":
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        print("port", server.server_address[1], flush=True)
        server.serve_forever()
