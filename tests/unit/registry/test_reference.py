"""What a user calls an image, and what that is for registries, files and people."""

from __future__ import annotations

from pathlib import Path

import pytest

from runners.registry import reference
from runners.registry.http import is_loopback
from runners.registry.reference import parse, target

from .. import sentences

DIGEST = "sha256:" + "a1" * 32


@pytest.mark.parametrize(
    ("text", "server", "repository", "place", "name"),
    [
        ("oras://reg.org/team/train:v1", "reg.org", "team/train", "v1", "train_v1.sif"),
        ("oras://reg.org:5000/train", "reg.org:5000", "train", "latest", "train_latest.sif"),
        ("oras://localhost/train:1.0-rc", "localhost", "train", "1.0-rc", "train_1.0-rc.sif"),
        ("oras://[::1]:5000/a/b:c", "[::1]:5000", "a/b", "c", "b_c.sif"),
        ("docker://debian", "registry-1.docker.io", "library/debian", "latest", ""),
        ("docker://ada/train:v1", "registry-1.docker.io", "ada/train", "v1", "train_v1.sif"),
        ("docker://docker.io/debian:12", "registry-1.docker.io", "library/debian", "12", ""),
        ("docker://index.docker.io/a/b", "registry-1.docker.io", "a/b", "latest", ""),
        ("docker://nvcr.io/nvidia/pytorch:24.12-py3", "nvcr.io", "nvidia/pytorch", "24.12-py3", ""),
        (f"oras://r.org/a@{DIGEST}", "r.org", "a", DIGEST, "a_sha256-a1a1a1a1a1a1.sif"),
        (f"docker://r.org/a:v1@{DIGEST}", "r.org", "a", DIGEST, "a_v1.sif"),
    ],
)
def test_registries(text: str, server: str, repository: str, place: str, name: str) -> None:
    found = parse(text)
    assert (found.server, found.repository, found.tag_or_digest) == (server, repository, place)
    assert found.source == text
    assert found.name.endswith(name or ".sif")
    assert found.at(DIGEST).text.endswith(f"/{repository}@{DIGEST}")


def test_the_runtime_is_given_a_tag_or_a_digest_but_not_both() -> None:
    assert parse("docker://a/b:c").text == "docker://docker.io/a/b:c"
    assert parse(f"docker://a/b:c@{DIGEST}").text == f"docker://docker.io/a/b@{DIGEST}"


@pytest.mark.parametrize(
    ("text", "id"),
    [
        ("oras://train:v1", "registry-not-named"),
        ("oras://reg.org", "registry-not-named"),
        ("oras://reg.org/Team/train", "address-malformed"),
        ("oras://reg.org/team/train:", "address-malformed"),
        ("oras://reg.org/team//train", "address-malformed"),
        ("oras://reg.org/team/train@sha256:123", "digest-malformed"),
        ("docker://reg.org:port/a", "registry-not-named"),
        ("oras://reg.org/a b", "address-with-space"),
        ("oras://reg.org/a\nb", "address-with-space"),
        ("shub://a/b", "address-scheme-unknown"),
        ("ftp://reg.org/a.sif", "address-scheme-unknown"),
        ("https://reg.org/a.sif", "address-of-web"),
    ],
)
def test_what_is_malformed(text: str, id: str) -> None:
    with sentences.raises(id):
        parse(text)


@pytest.mark.parametrize(
    ("text", "verb"),
    [
        ("library://a/b", "pull"),
        ("oci-archive:b.tar", "build NAME.sif"),
        ("docker-archive:b.tar", "build NAME.sif"),
    ],
)
def test_what_the_runtime_pulls(text: str, verb: str) -> None:
    with sentences.raises("address-of-runtime", f"apptainer {verb} {text}"):
        parse(text)


@pytest.mark.parametrize("text", ["library://a/b", "docker-archive:b.tar", "oci-archive:b.tar"])
def test_what_others_push(text: str) -> None:
    with sentences.raises("push-scheme"):
        target(text)


@pytest.mark.parametrize("scheme", ["oras", "docker", "https"])
@pytest.mark.parametrize("user", ["ada:geheim", "geheim", "ada:ge/heim"])
def test_a_password_in_an_address_is_refused_and_not_repeated(scheme: str, user: str) -> None:
    id = "address-of-web" if scheme == "https" else "address-with-password"
    with sentences.raises(id) as error:
        parse(f"{scheme}://{user}@reg.org/team/train")
    assert "heim" not in str(error.value).replace(f"{scheme}://ada", "")


def test_files(here: Path) -> None:
    (here / "a.sif").touch()
    assert parse("a.sif").path == here / "a.sif"
    for text in ("c.sif", "."):
        with sentences.raises("pull-of-local-path"):
            parse(text)


def test_names() -> None:
    assert reference.image_name("a.b") == "a.b.sif"
    assert reference.image_name("a.sif") == "a.sif"
    for name in ("", "..", "a/b", "-a", "a b", ".hidden", "sha256-abc", "a" * 300):
        with sentences.raises("image-name-invalid"):
            reference.image_name(name)


@pytest.mark.parametrize("host", ["localhost:80", "127.0.0.1:5000", "127.3.2.1:443", "[::1]:8080"])
def test_loopback(host: str) -> None:
    assert is_loopback(f"http://{host}/v2/")
    assert not is_loopback(f"http://example.org{host[-5:]}/v2/")
