"""Talking to registries and web servers: real HTTP, on loopback, with what real servers do."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.error import HTTPError

import pytest

from runners.registry import credentials, download, http, reference, sources
from runners.registry.registry_client import Blob, Registry

from .. import sentences
from ..core.test_sif import make_sif
from ..listener import Said
from .http_server import Handler, serving

SIF = "application/vnd.sylabs.sif.layer.v1.sif"
TOKEN = "a-token"


@dataclass
class Site:
    """A server: `answers` by path, (code, headers, body); the requests that came."""

    host: str = ""
    answers: dict[str, tuple[int, dict[str, str], bytes]] = field(default_factory=dict)
    came: list[tuple[str, str]] = field(default_factory=list)
    token: bool = False
    ranges: bool = False

    def reply(self, path: str, secret: str) -> tuple[int, dict[str, str], bytes]:
        """Return the answer; with `token`, only to who brings the token."""
        self.came.append((path, secret))
        if path.startswith("/token"):
            allowed = secret == credentials.Credentials("ada", "pw", "").basic
            body = json.dumps({"token": TOKEN if allowed else "anonymous"}).encode()
            return 200, {}, body
        if self.token and secret != f"Bearer {TOKEN}":
            realm = f'Bearer realm="http://{self.host}/token",service="here",scope="x"'
            return 401, {"WWW-Authenticate": realm}, b""
        return self.answers.get(path, (404, {}, b'{"errors": [{"code": "NAME_UNKNOWN"}]}'))


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Site]:
    """A server of this test's own, and a user without credentials."""
    for name in ("http_proxy", "HTTP_PROXY", "APPTAINER_DOCKER_USERNAME", "DOCKER_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    made = Site()

    class Answers(Handler):
        def do_GET(self) -> None:
            secret = self.headers.get("Authorization", "")
            code, headers, body = made.reply(self.path, secret)
            wanted = self.headers.get("Range", "")
            if made.ranges and wanted:
                first, last = wanted.removeprefix("bytes=").split("-")
                code, body = 206, body[int(first) : int(last) + 1]
            self.answer(code, body, **headers)

    with serving(Answers) as made.host:
        yield made


def registry(site: Site) -> Registry:
    return Registry(reference.parse(f"oras://{site.host}/team/train:v1"), plain=True)


def resolved(site: Site) -> sources.ImageSource:
    def convert(*_: object) -> None:
        raise AssertionError("a SIF is taken as it is")

    return sources.resolve(registry(site).reference, "amd64", True, convert)


def offer(site: Site, content: bytes) -> str:
    """Let the site have an image; return its digest."""
    digest = hashlib.sha256(content).hexdigest()
    layer = {"mediaType": SIF, "digest": f"sha256:{digest}", "size": len(content)}
    manifest = {"config": {**layer, "mediaType": ""}, "layers": [layer]}
    site.answers["/v2/team/train/manifests/v1"] = (200, {}, json.dumps(manifest).encode())
    site.answers[f"/v2/team/train/blobs/sha256:{digest}"] = (200, {}, content)
    return f"sha256:{digest}"


def test_a_token_is_bought_with_the_password(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.token = True
    offer(site, b"image")
    with sentences.raises("registry-access"):
        registry(site).manifest("amd64")
    monkeypatch.setenv("APPTAINER_DOCKER_USERNAME", "ada")
    monkeypatch.setenv("APPTAINER_DOCKER_PASSWORD", "pw")
    site.came.clear()
    server = registry(site)
    (layer,) = server.manifest("amd64").layers
    assert server.blob(layer).read() == b"image"
    paths = [path for path, _ in site.came]
    asked = "/token?service=here&scope=repository%3Ateam%2Ftrain%3Apull"
    assert paths.count(asked) == 1, "one token for all requests"
    site.answers["/v2/"] = (200, {}, b"{}")


def test_a_password_does_not_follow_a_redirect(site: Site, tmp_path: Path) -> None:
    """Registries send to a store of blobs elsewhere, which would refuse a second credential."""
    site.answers["/a"] = (307, {"Location": f"http://localhost:{site.host[10:]}/b"}, b"")
    site.answers["/b"] = (200, {}, b"there")
    assert http.send(f"http://{site.host}/a", secret="Basic x").read() == b"there"
    assert site.came == [("/a", "Basic x"), ("/b", "")]


def test_a_password_does_not_go_where_another_server_says(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store of blobs that a registry sends us to asks for a password in its own name."""
    monkeypatch.setenv("APPTAINER_DOCKER_USERNAME", "ada")
    monkeypatch.setenv("APPTAINER_DOCKER_PASSWORD", "pw")
    port = site.host.rpartition(":")[2]
    site.answers["/v2/team/train/x"] = (307, {"Location": f"http://localhost:{port}/blob"}, b"")
    challenge = f'Bearer realm="http://localhost:{port}/token"'
    site.answers["/blob"] = (401, {"WWW-Authenticate": challenge}, b"")
    server = Registry(reference.parse(f"docker://{site.host}/team/train:v1"), plain=True)
    for path in ("team/train/x", f"http://localhost:{port}/blob"):
        with pytest.raises(HTTPError) as caught:
            server.ask(path)
        assert caught.value.code == 401
    assert not [path for path, _ in site.came if path.startswith("/token")]


@pytest.mark.parametrize("url", ["file:///etc/hostname", "ftp://127.0.0.1:9/x", "x"])
def test_only_http_is_spoken(site: Site, url: str) -> None:
    with sentences.raises("address-not-http"):
        http.send(url)
    if url.startswith("ftp:"):  # the library itself follows no other kind
        site.answers["/a"] = (307, {"Location": url}, b"")
        with sentences.raises("address-not-http"):
            http.send(f"http://{site.host}/a")


def test_a_configuration_is_the_one_that_the_manifest_names(site: Site) -> None:
    good = b'{"architecture": "amd64"}'
    digest = f"sha256:{hashlib.sha256(good).hexdigest()}"
    manifest = {"config": {"digest": digest, "size": len(good)}, "layers": []}
    site.answers["/v2/team/train/manifests/v1"] = (200, {}, json.dumps(manifest).encode())
    server = Registry(reference.parse(f"docker://{site.host}/team/train:v1"), plain=True)
    site.answers[f"/v2/team/train/blobs/{digest}"] = (200, {}, good)
    assert server.config(server.manifest("amd64")) == {"architecture": "amd64"}
    site.answers[f"/v2/team/train/blobs/{digest}"] = (200, {}, b'{"architecture": "arm64"}')
    with sentences.raises("registry-digest"):
        server.config(server.manifest("amd64"))


def test_a_proxy_is_used(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://{site.host}")
    monkeypatch.setenv("no_proxy", "")
    site.answers["http://reg.invalid/v2/"] = (200, {}, b"through")
    assert http.send("http://reg.invalid/v2/").read() == b"through"
    monkeypatch.setenv("http_proxy", "http://ada:geheim@127.0.0.1:9")
    with sentences.raises("host-silent") as error:
        http.send("http://reg.invalid/v2/")
    assert "geheim" not in str(error.value)


@pytest.mark.parametrize(
    ("code", "body", "id"),
    [
        (403, b'{"errors": [{"code": "DENIED", "message": "no"}]}', "registry-access"),
        (404, b'{"errors": [{"code": "NAME_UNKNOWN"}]}', "repository-missing"),
        (429, b"slowly", "registry-rate-limit"),
        (500, b"<html>oops", "registry-failed"),
        (200, b"<html>hello", "not-a-registry"),
        (200, b"[1]", "not-a-registry"),
        (200, b'{"schemaVersion": 1}', "manifest-unsupported"),
    ],
)
def test_what_a_registry_may_say(site: Site, code: int, body: bytes, id: str) -> None:
    site.answers["/v2/team/train/manifests/v1"] = (code, {"Retry-After": "60"}, body)
    with sentences.raises(id):
        registry(site).manifest("amd64")


def test_a_cut_answer_is_no_image(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "WAITS", (0.0,))
    site.answers["/cut"] = (200, {"Content-Length": "1000"}, b"only this")
    said = Said()
    with sentences.raises("download-stopped"):
        download.from_web(f"http://{site.host}/cut", site.host, tmp_path / "part", 1000, said)


CHUNKED = {"Transfer-Encoding": "chunked", "Content-Length": ""}


def test_of_an_answer_without_end_no_more_is_written_than_the_file_has(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much a server sends, or announces: the disk is everybody's."""
    seen: list[int] = []
    forget = download.forget

    def measured(part: Path) -> None:
        seen.append(part.stat().st_size)
        forget(part)

    monkeypatch.setattr(download, "forget", measured)
    piece = b"10000\r\n" + bytes(1 << 16) + b"\r\n"
    site.answers["/endless"] = (200, CHUNKED, 100 * piece)
    digest = offer(site, bytes(1 << 22))
    layer = Blob(digest, 1000, SIF)
    ways: list[Callable[[], object]] = [
        lambda: download.from_web(f"http://{site.host}/endless", "x", part, 1000, Said()),
        lambda: sources.from_a_registry(registry(site), layer, part, Said()),
    ]
    for number, way in enumerate(ways):
        part = tmp_path / f"part{number}"
        with sentences.raises("download-too-long"):
            way()
        assert not part.exists()
    assert [size <= 1000 + download.CHUNK for size in seen] == [True, True]


@pytest.mark.parametrize(
    ("code", "id"),
    [(401, "registry-access"), (404, "repository-missing"), (500, "registry-failed")],
)
def test_an_error_whose_text_is_cut_is_told_without_it(site: Site, code: int, id: str) -> None:
    site.answers["/v2/team/train/manifests/v1"] = (code, CHUNKED, b"5\r\nab")
    with sentences.raises(id):
        registry(site).manifest("amd64")


def test_labels_whose_answer_is_cut_are_no_labels(site: Site) -> None:
    digest = offer(site, bytes(100_000))
    source = resolved(site)
    site.answers[f"/v2/team/train/blobs/{digest}"] = (206, CHUNKED, b"5\r\nab")
    with sentences.raises("answer-truncated"):
        source.labels()


def test_a_redirect_to_no_address_is_told(site: Site) -> None:
    site.answers["/away"] = (302, {"Location": "http://[::1/"}, b"")
    with sentences.raises("host-silent"):
        http.send(f"http://{site.host}/away")


def test_labels_are_read_from_afar(site: Site, tmp_path: Path) -> None:
    """A server that does not send parts gives an error, and not a whole download."""
    image = make_sif(tmp_path / "a.sif", {"horovod.version": "0.28.1"}).read_bytes()
    digest = offer(site, image)
    source = resolved(site)
    assert (source.digest, source.size) == (digest, len(image))
    with sentences.raises("registry-without-ranges"):
        source.labels()
    site.ranges = True
    assert source.labels() == {"horovod.version": "0.28.1"}


@pytest.mark.parametrize("key", ["reg.org", "https://reg.org"])
def test_credentials_of_docker_and_apptainer(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    file = tmp_path / ".docker" / "config.json"
    file.parent.mkdir()
    auth = base64.b64encode(b"ada:p:w").decode()
    file.write_text(json.dumps({"auths": {key: {"auth": auth}, "empty.org": {}}}))
    found = credentials.find("reg.org")
    assert found is not None
    assert (found.user, found.password, found.origin) == ("ada", "p:w", str(file))
    assert "p:w" not in repr(found)
    assert credentials.find("empty.org") is None
    monkeypatch.setenv("SINGULARITY_DOCKER_USERNAME", "old")
    monkeypatch.setenv("SINGULARITY_DOCKER_PASSWORD", "way")
    assert credentials.find("reg.org") == credentials.Credentials(
        "old", "way", "SINGULARITY_DOCKER_USERNAME"
    )


def test_a_broken_file_of_credentials_is_named_and_not_shown(site: Site, tmp_path: Path) -> None:
    file = tmp_path / ".docker" / "config.json"
    file.parent.mkdir()
    file.write_text('{"auths": geheim')
    with sentences.raises("credentials-unreadable") as error:
        credentials.find("reg.org")
    assert "geheim" not in str(error.value)


def test_http_errors_reach_who_understands_them(site: Site) -> None:
    with pytest.raises(HTTPError):
        http.send(f"http://{site.host}/nothing")
