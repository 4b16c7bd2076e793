"""Which Debian archive the nodes are made from: the one that an image's base is made from."""

from __future__ import annotations

from collections.abc import Mapping

from containers import apt

from .shell import Unsupported


def host_mirror(environ: Mapping[str, str]) -> str:
    """Return the archive's address. Raises Unsupported where this machine knows none."""
    source = apt.archive(environ)
    if source is None:
        raise Unsupported(
            "no Debian archive in /etc/apt/sources.list or /etc/apt/sources.list.d;\n"
            f"name one: {apt.MIRROR}=<archive address> python3 -m tests.cluster rootfs"
        )
    return source.uri
