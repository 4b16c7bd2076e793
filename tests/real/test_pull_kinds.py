"""Pulls of every other kind: Docker's images, files; and what goes wrong with them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from . import servers
from .conftest import Login, on_cluster, succeeded
from .desk import (
    NOT_VERIFIED,
    REFUSED,
    USAGE,
    ZEROS,
    Desk,
    desk,
    digest_in,
    digest_of,
    registry,
    shop,
)
from .servers import Server

__all__ = ["desk", "registry", "shop"]  # pytest looks for fixtures among a module's names
MAKE_OCI = "python3 /opt/kit/tests/real/make_oci.py"


@pytest.fixture(scope="session")
def docker(shop: Login, registry: Server) -> Server:
    """A registry that has team/oci, as amd64 and as arm64, and as "all", an index of the two."""
    base = f"http://{registry.host}/v2/team/oci"
    for arch in ("amd64", "arm64"):
        shop.sh(f"{MAKE_OCI} small {arch} {arch} {base}")
    return registry


def test_a_docker_image_becomes_a_sif(desk: Desk, docker: Server) -> None:
    uri = f"docker://{docker.host}/team/oci:all"
    facts = desk.pull(uri)
    run = "apptainer exec scratch/images/oci_all.sif sh -c 'echo $((6 * 7))'"
    assert desk.sh(run) == "42\n"
    assert f'manifest = "{facts["manifest"]}"' in desk.sh("cat images.lock")
    asked = docker.requests("GET /v2/team/oci/blobs")
    again = desk.pull(f"docker://{docker.host}/team/oci:amd64", "--name", "other")
    assert again["digest"] == facts["digest"], "the same manifest is made into a SIF once"
    assert docker.requests("GET /v2/team/oci/blobs") == asked + 1, "only its configuration"
    # In another folder, without the SIF: its manifest is what stays the same.
    desk.sh("rm -rf scratch")
    assert desk.pull(uri)["manifest"] == facts["manifest"]
    wanted = ["--digest", facts["manifest"], "--update"]
    assert desk.pull(uri, *wanted)["manifest"] == facts["manifest"]
    assert "wanted" in desk.refused(NOT_VERIFIED, uri, "--digest", ZEROS)


def test_another_architecture(desk: Desk, docker: Server) -> None:
    arm = f"docker://{docker.host}/team/oci:arm64"
    assert "is not for amd64\n  for arm64" in desk.refused(REFUSED, arm)
    index = f"docker://{docker.host}/team/oci:all"
    assert "for amd64, arm64" in desk.refused(REFUSED, index, "--arch", "ppc64le")
    sif = f"oras://{docker.host}/team/train:v1"
    assert "is not for arm64" in desk.refused(REFUSED, sif, "--arch", "arm64")
    assert desk.pull(arm, "--arch", "arm64")["size"] > 0


def test_files(desk: Desk, shop: Login) -> None:
    digest, wanted = digest_in(shop, "other.sif"), digest_in(shop, "python.sif")
    desk.sh(f"cp {shop.folder}/other.sif mine.sif")
    assert desk.pull("mine.sif")["digest"] == digest
    said = desk.refused(NOT_VERIFIED, f"{shop.folder}/other.sif", "--digest", wanted)
    assert "is not what it should be" in said
    # The file behind a name changes; images.lock knows what it was.
    desk.sh(f"rm -r scratch; cp {shop.folder}/python.sif mine.sif")
    assert "--update" in desk.refused(NOT_VERIFIED, "mine.sif")
    assert desk.pull("--update", "mine.sif")["digest"] == wanted
    desk.sh(f"head -c 1000000 {shop.folder}/python.sif > cut.sif")
    assert "truncated" in desk.refused(REFUSED, "cut.sif")
    desk.sh("echo nothing > no.sif")
    assert "start like a SIF" in desk.refused(REFUSED, "no.sif")
    built = "try: apptainer build NAME.sif docker-archive:a.tar"
    assert built in desk.refused(USAGE, "docker-archive:a.tar")


@pytest.fixture
def small_scratch(desk: Desk) -> Iterator[None]:
    """The images folder has room for 20 MB, which the image fits in, and its layers do not."""
    folder = f"{desk.folder}/scratch/images"
    desk.sh("mkdir -p scratch/images")
    options = "size=20m,mode=777"
    on_cluster(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], user="root")
    yield
    on_cluster(["umount", folder], user="root")


@pytest.mark.usefixtures("small_scratch")
def test_no_room(desk: Desk, docker: Server) -> None:
    said = desk.refused(REFUSED, f"docker://{docker.host}/team/oci:all")
    assert "no space for the image: it needs" in said
    first = desk.pull(f"oras://{docker.host}/team/train:v1")
    # The runtime's layers do not fit beside it, whatever the registry says of their size.
    said = desk.refused(REFUSED, f"docker://{docker.host}/team/oci:amd64")
    assert "runner images prune" in said
    assert digest_of(desk, first["path"]) == first["digest"], "what was there is as it was"


def test_a_killed_pull_takes_the_runtime_with_it(desk: Desk, shop: Login, docker: Server) -> None:
    with servers.relay(shop, docker, 1_000_000) as relay:
        words = f"runner pull --no-https docker://{relay.host}/team/oci:all"
        start = f"export RUNNER_SCRATCH=$PWD/scratch; {words} > pull.log 2>&1 & echo $!"
        pid = desk.sh(start).strip()
        runtime = f"pgrep -f '[a]pptainer pull.*{relay.host}/team/oci'"
        desk.sh(f"for i in $(seq 100); do {runtime} && exit; sleep 0.1; done; cat pull.log; false")
        desk.sh(f"kill -KILL {pid}")
        desk.sh(f"for i in $(seq 50); do {runtime} || exit 0; sleep 0.1; done; false")
    desk.pull(f"docker://{docker.host}/team/oci:all")
    assert desk.sh("find scratch/images/.pulls -mindepth 1 ! -name '*.lock' -size +0") == ""


def test_a_site_with_its_own_authority(desk: Desk, shop: Login) -> None:
    shop.sh(
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout key.pem -out ca.pem"
        " -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
        " -addext keyUsage=critical,digitalSignature,keyCertSign 2> /dev/null"
    )
    tls = f"{{certificate: {shop.folder}/ca.pem, key: {shop.folder}/key.pem}}"
    with servers.registry(shop, "tls", f"http: {{addr: '127.0.0.1:0', tls: {tls}}}") as server:
        uri, image = f"oras://{server.host}/team/train:v1", f"{shop.folder}/python.sif"
        https = {"APPTAINER_NOHTTPS": ""}
        known = {**https, "SSL_CERT_FILE": f"{shop.folder}/ca.pem"}
        assert desk.runner("push", image, uri, env=https).returncode == NOT_VERIFIED
        done = succeeded(desk.runner("push", "--json", image, uri, env=known))
        said = desk.refused(NOT_VERIFIED, uri, env=https)
        assert "has no trusted certificate" in said
        assert "SSL_CERT_FILE=" in said
        assert desk.pull(uri, env=known)["digest"] == json.loads(done.stdout)["digest"]
        assert "leave out --no-https" in desk.refused(REFUSED, "--update", uri)
