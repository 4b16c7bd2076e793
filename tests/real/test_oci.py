"""OCI images: of a SIF into a registry or an archive, and back."""

from __future__ import annotations

import json

from .conftest import IMAGE, Login
from .desk import Desk, desk, registry, shop
from .servers import Server

__all__ = ["desk", "registry", "shop"]  # pytest looks for fixtures among a module's names
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


def test_our_image_comes_back_and_trains(desk: Desk, registry: Server) -> None:
    uri = f"docker://{registry.host}/team/horovod:v1"
    done = desk.runner("push", IMAGE, uri, "--json")
    assert done.returncode == 0, done.stderr
    sent = json.loads(done.stdout)
    manifest = json.loads(desk.sh(f"curl -sS http://{registry.host}/v2/team/horovod/manifests/v1"))
    assert [layer["mediaType"].rpartition(".")[2] for layer in manifest["layers"]] == [
        "tar+gzip"
    ] * 2
    again = desk.runner("push", IMAGE, f"docker://{registry.host}/team/horovod:v2", "--json")
    assert json.loads(again.stdout)["digest"] == sent["digest"], "the same image, the same digest"
    assert registry.requests('"PUT /v2/team/horovod/blobs') == 3, "nothing was sent twice"
    facts = desk.pull(uri)
    assert facts["manifest"] == sent["manifest"]
    words = ["--image", uri, "--nodes", "2", "--wait", "torch_mnist", "--", "--epochs", "1"]
    done = desk.runner("launch", *words)
    assert done.returncode == 0, done.stderr
    shown = desk.sh("apptainer run --cleanenv scratch/images/horovod_v1.sif env")
    assert "PATH=/opt/horovod/bin:" in shown
    assert "PYTHONNOUSERSITE=1" in shown


def test_an_archive_is_the_same_image(desk: Desk, shop: Login, registry: Server) -> None:
    image = f"{shop.folder}/python.sif"
    uri = f"docker://{registry.host}/team/python:v1"
    secret = {"http_proxy": "http://ada:geheim@127.0.0.1:9", "no_proxy": "127.0.0.1"}
    sent = json.loads(desk.runner("push", image, uri, "--json", env=secret).stdout)
    done = desk.runner("push", image, "oci-archive:python.tar", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["digest"] == sent["digest"]
    assert desk.sh("grep -c geheim python.tar || true").strip() == "0"
    desk.pull("oci-archive:python.tar", "--name", "python")
    assert desk.sh("apptainer exec scratch/images/python.sif python3 -c 'print(6 * 7)'") == "42\n"
    first = desk.sh("sha256sum python.tar")
    assert desk.runner("push", image, "oci-archive:python.tar").returncode == 0
    assert desk.sh("sha256sum python.tar") == first
    assert desk.sh("find scratch/images/.pulls -mindepth 1 ! -name '*.lock'") == ""
