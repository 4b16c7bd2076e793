"""What a registry or a login file may say: any bytes, and only our own errors come of them."""

from __future__ import annotations

import io
import json
from http.client import HTTPResponse
from pathlib import Path
from typing import cast

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from runners.core.errors import RunnerError
from runners.registry import credentials
from runners.registry.reference import parse
from runners.registry.registry_client import Registry

scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=12)
names = st.sampled_from(["auths", "auth", "username", "password", "host.example"])
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
files = st.binary(max_size=64) | documents.map(lambda value: json.dumps(value).encode())
in_a_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def login_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that is looked at first."""
    path = tmp_path / "config.json"
    monkeypatch.setenv("APPTAINER_AUTHFILE", str(path))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("HOME", str(tmp_path))
    return path


@in_a_folder
@given(files)
@example(b"[" * 100_000)
@example(b'{"auths": {"host.example": {"auth": 5}}}')
@example('{"auths": {"host.example": {"auth": "é"}}}'.encode())
def test_a_login_file(login_file: Path, content: bytes) -> None:
    login_file.write_bytes(content)
    try:
        found = credentials.find("host.example")
    except RunnerError:
        return
    assert found is None or found.basic.isascii()


@given(st.binary(max_size=64) | documents.map(lambda value: json.dumps(value).encode()))
@example(b"[" * 100_000)
@example(b'{"token": "a\\r\\nX-Other: 1"}')
@example('{"token": "é"}'.encode())
@example(b'{"token": {"a": 1}}')
@example(b'{"token": ""}')
def test_an_answer_with_a_token(answer: bytes) -> None:
    try:
        value = credentials.token(answer, "https://host.example/token", "https://host.example")
    except RunnerError:
        return
    assert value.isascii()
    assert value.isprintable()


DIGEST = "sha256:" + "0" * 64
parts = st.sampled_from(
    ["manifests", "layers", "config", "digest", "size", "mediaType", "platform", "architecture"]
)
manifests = st.recursive(
    scalars | st.floats() | st.just(DIGEST) | st.just("amd64"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(parts, inner, max_size=5),
    max_leaves=12,
)
SMALL = {"digest": DIGEST, "size": 1}


class Answering(Registry):
    """A registry that gives one answer to everything."""

    answer = b""

    def ask(self, *_: object, **__: object) -> HTTPResponse:
        return cast(HTTPResponse, io.BytesIO(self.answer))


@given(st.binary(max_size=64) | manifests.map(lambda value: json.dumps(value).encode()))
@example(b"[" * 100_000)
@example(json.dumps({"layers": [SMALL], "config": SMALL}).encode())
@example(json.dumps({"layers": [{**SMALL, "size": float("inf")}], "config": SMALL}).encode())
@example(json.dumps({"layers": [{**SMALL, "size": -1}], "config": SMALL}).encode())
@example(json.dumps({"layers": [{**SMALL, "digest": "../../x"}], "config": SMALL}).encode())
def test_a_manifest(answer: bytes) -> None:
    server = Answering(parse("docker://host.example/team/train:v1"), plain=False)
    server.answer = answer
    assert all(isinstance(tag, str) for tag in server.tags())
    try:
        found = server.manifest("amd64")
    except RunnerError:
        return
    assert all(blob.digest == DIGEST for blob in (found.config, *found.layers))
    assert all(blob.size >= 0 for blob in (found.config, *found.layers))
