"""Which hosts are this machine itself."""

from __future__ import annotations

import re

LOOPBACK = re.compile(r"localhost|127\.\d+\.\d+\.\d+|::1")


def is_loopback(host: str) -> bool:
    """Whether a host, with or without a port, is this machine itself."""
    from urllib.parse import urlsplit  # 2 ms, which most commands do without

    bare = urlsplit(f"//{host}").hostname or ""
    return LOOPBACK.fullmatch(bare) is not None
