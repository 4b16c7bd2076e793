"""Makes Docker's kind of image of a folder, in a registry.

    python3 make_oci.py FOLDER ARCHITECTURE NAME BASE_URL

Pushes the tags NAME and "all", an index of this and of whatever "all" held before, to the
repository. BASE_URL is http://HOST/v2/REPOSITORY. Standard library only: it runs on the cluster's
login node, where no tool for such images is.
"""

from __future__ import annotations

import hashlib
import io
import json
import sys
import tarfile
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

OCI = "application/vnd.oci.image"


def described(data: bytes, kind: str) -> dict[str, Any]:
    """Return what a manifest says of a blob."""
    return {"mediaType": kind, "digest": digest(data), "size": len(data)}


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def layer(folder: Path) -> bytes:
    """Return the folder as a tar."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        tar.add(folder, arcname=".")
    return file.getvalue()


def put(base: str, path: str, data: bytes, kind: str) -> None:
    urlopen(Request(f"{base}/{path}", data, {"Content-Type": kind}, method="PUT"))


def push_blob(base: str, data: bytes) -> None:
    start = urlopen(Request(f"{base}/blobs/uploads/", b"", method="POST"))
    url = f"{start.headers['Location']}&digest={digest(data)}"
    urlopen(Request(url, data, {"Content-Type": "application/octet-stream"}, method="PUT"))


def push_index(base: str, entry: dict[str, Any]) -> None:
    kind = f"{OCI}.index.v1+json"
    try:
        answer = urlopen(Request(f"{base}/manifests/all", headers={"Accept": kind}))
        entries = json.load(answer)["manifests"]
    except HTTPError:
        entries = []
    index = {"schemaVersion": 2, "mediaType": kind, "manifests": [*entries, entry]}
    put(base, "manifests/all", json.dumps(index).encode(), kind)


def main(folder: str, arch: str, name: str, base: str) -> None:
    tree = layer(Path(folder))
    config = {
        "architecture": arch,
        "os": "linux",
        "config": {"Labels": {"horovod.controllers": "gloo"}},
        "rootfs": {"type": "layers", "diff_ids": [digest(tree)]},
    }
    raw = json.dumps(config).encode()
    document = {
        "schemaVersion": 2,
        "mediaType": f"{OCI}.manifest.v1+json",
        "config": described(raw, f"{OCI}.config.v1+json"),
        "layers": [described(tree, f"{OCI}.layer.v1.tar")],
    }
    manifest = json.dumps(document).encode()
    entry = described(manifest, f"{OCI}.manifest.v1+json")
    push_blob(base, tree)
    push_blob(base, raw)
    put(base, f"manifests/{name}", manifest, f"{OCI}.manifest.v1+json")
    push_index(base, {**entry, "platform": {"os": "linux", "architecture": arch}})


if __name__ == "__main__":
    main(*sys.argv[1:])
