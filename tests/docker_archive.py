"""A file system archive as an image of `docker save`: what a registry gives, in one file."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

from runners.core.digest import sha256
from runners.core.machine import AMD64


def docker_archive(layer: Path, output: Path, architecture: str = AMD64) -> None:
    """Wrap the file system archive `layer` as `docker save` would."""
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    config = {
        "architecture": architecture,
        "os": "linux",
        "config": {"Env": [f"PATH={path}"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{sha256(layer)}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": None, "Layers": ["layer.tar"]}]
    with tarfile.open(output, "w") as archive:
        for name, content in (("config.json", config), ("manifest.json", manifest)):
            data = json.dumps(content).encode()
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
        archive.add(layer, "layer.tar")
