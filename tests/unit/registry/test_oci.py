"""OCI images: layers that are the same each time, and their upload to registries of all kinds."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from runners.core.progress import Progress
from runners.registry import oci, oci_layer, reference
from runners.registry.oci import Layout
from runners.registry.registry_client import Blob, Registry
from runners.registry.upload import upload

from .. import sentences
from .http_server import Handler, serving

MANIFEST_PATH = "/v2/team/train/manifests/v1"


def tree(folder: Path, names: list[str]) -> Path:
    """Make a tree, its files in this order."""
    for name in names:
        path = folder / "opt" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode() * 1_000_000)
        path.chmod(0o640)
    os.link(folder / "opt/a", folder / "opt/hard")
    (folder / "opt/soft").symlink_to("/nowhere")
    closed = folder / "opt/closed"
    closed.mkdir()
    (closed / "file").write_text("x")
    (closed / "file").chmod(0)
    closed.chmod(0o111)
    # All of them, or two trees differ that were made in different seconds.
    for path in (folder / "opt/b/c", closed / "file", *folder.glob("opt/*"), folder / "opt"):
        os.utime(path, (1_686_528_000.5, 1_686_528_000.5), follow_symlinks=False)
    return folder


def packed(root: Path, target: Path) -> oci_layer.OciLayer:
    return oci_layer.write(root, oci_layer.below(root, "opt"), target, Progress())


def test_a_layer_of_the_same_files_is_the_same(tmp_path: Path) -> None:
    first = packed(tree(tmp_path / "1", ["a", "b/c", "d"]), tmp_path / "layer")
    second = packed(tree(tmp_path / "2", ["d", "b/c", "a"]), tmp_path / "again")
    assert first == second
    raw = (tmp_path / "layer").read_bytes()
    assert first.digest == f"sha256:{hashlib.sha256(raw).hexdigest()}"
    assert first.size == len(raw)
    assert first.tar == f"sha256:{hashlib.sha256(gzip.decompress(raw)).hexdigest()}"
    with tarfile.open(tmp_path / "layer") as tar:
        found = {member.name: member for member in tar}
    assert {
        (member.uid, member.gid, member.uname, member.mtime % 1) for member in found.values()
    } == {(0, 0, "", 0)}
    assert found["opt/a"].mode == 0o640
    assert (found["opt/closed"].mode, found["opt/closed/file"].mode) == (0o111, 0)
    assert found["opt/hard"].islnk()
    assert found["opt/soft"].linkname == "/nowhere"


def test_a_file_that_would_remove_another_is_refused(tmp_path: Path) -> None:
    (tmp_path / "opt").mkdir()
    (tmp_path / "opt/.wh.a").touch()
    with sentences.raises("whiteout-name"):
        packed(tmp_path, tmp_path / "layer")


@dataclass
class Store:
    """A registry: its blobs and manifests; what it refuses; the requests that came."""

    refuses: int = 0
    cuts: bool = False
    expires: bool = False
    blobs: dict[str, bytes] = field(default_factory=dict)
    manifests: dict[str, bytes] = field(default_factory=dict)
    came: list[str] = field(default_factory=list)
    host: str = ""
    tokens: int = 0


def handler(store: Store) -> type[Handler]:
    """Answer as a registry does."""

    class OfStore(Handler):
        def do_HEAD(self) -> None:
            self.answer(200 if self.path.rpartition("/")[2] in store.blobs else 404)

        def do_POST(self) -> None:
            self.answer(202, Location="/elsewhere?state=x")

        def do_GET(self) -> None:
            store.tokens += 1
            self.answer(200, json.dumps({"token": f"t{store.tokens}"}).encode())

        def do_PUT(self) -> None:
            store.came.append(self.path)
            length = int(self.headers["Content-Length"])
            if store.cuts:
                self.rfile.read(length // 2)
                self.connection.close()
                return
            body = self.rfile.read(length)
            old = self.headers.get("Authorization") != f"Bearer t{max(1, store.tokens)}"
            if store.expires and old:
                realm = f'Bearer realm="http://{store.host}/token",service="s"'
                self.answer(401, WWW_Authenticate=realm)
            elif "/manifests/" in self.path and store.refuses:
                said = {"errors": [{"code": "MANIFEST_INVALID", "message": "unknown type"}]}
                self.answer(store.refuses, json.dumps(said).encode())
            elif "/manifests/" in self.path:
                store.manifests[self.path] = body
                self.answer(201)
            else:
                store.blobs[self.path.rpartition("digest=")[2]] = body
                self.answer(201)

    return OfStore


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Store]:
    """A registry of this test's own, and a user without credentials."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("DOCKER_CONFIG", raising=False)
    made = Store()
    with serving(handler(made)) as made.host:
        yield made


def blob(folder: Path, content: bytes, kind: str) -> Blob:
    digest = hashlib.sha256(content).hexdigest()
    path = folder / oci.BLOBS / digest
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return Blob(f"sha256:{digest}", len(content), kind)


def layout(folder: Path) -> Layout:
    layers = blob(folder, b"environment" * 1_000_000, oci.LAYER), blob(folder, b"t", oci.LAYER)
    return Layout(folder, blob(folder, b"{}", oci.MANIFEST), layers)


def push(store: Store, made: Layout) -> None:
    found = reference.parse(f"docker://{store.host}/team/train:v1")
    upload(Registry(found, plain=True, action="pull,push"), made, Progress())


@pytest.mark.parametrize("expires", [False, True])
def test_an_upload_sends_what_is_not_there(store: Store, tmp_path: Path, expires: bool) -> None:
    """Tokens end after minutes, and a layer may take longer."""
    store.expires = expires
    made = layout(tmp_path)
    store.blobs[made.blobs[1].digest] = b"there already"
    push(store, made)
    assert len(store.blobs[made.blobs[0].digest]) == made.blobs[0].size
    assert store.blobs[made.blobs[1].digest] == b"there already"
    assert store.manifests == {MANIFEST_PATH: b"{}"}
    assert f"/elsewhere?state=x&digest={made.blobs[0].digest}" in store.came


@pytest.mark.parametrize("code", [400, 415])
def test_a_registry_that_refuses_the_media_type(store: Store, tmp_path: Path, code: int) -> None:
    store.refuses = code
    with sentences.raises("registry-without-oci"):
        push(store, layout(tmp_path))
    assert store.manifests == {}


def test_a_registry_that_ends_in_the_middle(store: Store, tmp_path: Path) -> None:
    store.cuts = True
    with sentences.raises("upload-ended"):
        push(store, layout(tmp_path))
    assert store.manifests == {}
    store.cuts = False
    push(store, layout(tmp_path))
    assert store.manifests == {MANIFEST_PATH: b"{}"}
