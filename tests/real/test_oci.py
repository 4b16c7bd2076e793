"""OCI images: made of a SIF, pushed, pulled back by Apptainer, and run by Podman on two nodes."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from . import built, servers
from .conftest import IMAGE, Login, on_cluster
from .desk import Desk, desk, registry, shop
from .servers import Server

slow = pytest.mark.slow  # they push the CPU image, or build it

__all__ = ["desk", "registry", "shop"]  # pytest looks for fixtures among a module's names
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
HOME = "/home/ada/.config/containers"


@pytest.fixture(scope="module")
def pushed(shop: Login) -> Iterator[tuple[str, str]]:
    """Our image in a registry that the nodes reach: its name there, and its digest."""
    with servers.registry(shop, "for-nodes", "http: {addr: '0.0.0.0:0'}") as server:
        name = f"login:{server.port}/team/horovod:v1"
        done = shop.runner("push", "--no-https", "--json", IMAGE, f"docker://{name}")
        assert done.returncode == 0, done.stderr
        yield name, json.loads(done.stdout)["manifest"]


@pytest.fixture(scope="module")
def podman(pushed: tuple[str, str], shop: Login) -> Iterator[str]:
    """The image's name, with Podman's store on each node's own disk, as sites have it."""
    server = pushed[0].partition("/")[0]
    shop.sh(
        f"mkdir -p {HOME}; cd {HOME}\n"
        f"printf '[[registry]]\\nlocation=\"{server}\"\\ninsecure=true\\n' > registries.conf\n"
        'printf \'[storage]\\ndriver="overlay"\\nrootless_storage_path="/tmp/store-$UID"\\n\''
        " > storage.conf"
    )
    try:
        yield pushed[0]
    finally:
        for node in ("n1", "n2"):
            on_cluster(["podman", "system", "reset", "--force"], node=node)
        shop.sh(f"rm -r {HOME}")


@slow
def test_the_trainers_are_a_layer_of_their_own(shop: Login, pushed: tuple[str, str]) -> None:
    name, digest = pushed
    where = f"http://{name.replace('/', '/v2/', 1).replace(':v1', '')}/manifests/{digest}"
    accept = "'Accept: application/vnd.oci.image.manifest.v1+json'"
    environment, trainers = json.loads(shop.sh(f"curl -sS -H {accept} {where}"))["layers"]
    assert environment["mediaType"] == trainers["mediaType"] == LAYER
    assert trainers["size"] < 1_000_000 < environment["size"]


@slow
@pytest.mark.parametrize("controller", ["gloo", "mpi"])
def test_podman_trains_on_two_nodes(desk: Desk, podman: str, controller: str) -> None:
    words = ["--runtime", "podman", "--image", podman, "--nodes", "2", "--controller", controller]
    done = desk.runner("launch", *words, "--wait", "torch_mnist", "--", "--epochs", "1")
    log = desk.sh("cat runs/*/logs/job.log")
    assert done.returncode == 0, done.stderr + log
    assert "one world of 2 ranks" in log


@slow
def test_the_cpu_image_as_an_archive_runs_without_a_registry(
    shop: Login, pushed: tuple[str, str]
) -> None:
    folder = f"{shop.folder}/built"
    image, archive = f"{folder}/horovod_cpu.sif", f"{folder}/cpu.tar"
    built.build("cpu", "-o", image, seconds=600)
    for file in (archive, f"{folder}/again.tar"):
        done = shop.runner("push", image, f"oci-archive:{file}")
        assert done.returncode == 0, done.stderr
    shop.sh(f"cmp {archive} {folder}/again.tar; rm {folder}/again.tar")
    run = "podman run --rm --network=host --ipc=host --cgroups=disabled horovod_cpu"
    script = "import horovod.torch as hvd; hvd.init(); print(hvd.size(), hvd.gloo_built())"
    load = f"podman load -q -i {archive} >&2; rm {archive}"
    assert shop.sh(f'{load}; {run} python3 -c "{script}"') == "1 True\n"
    shop.sh("podman rmi -f horovod_cpu")


def test_apptainer_and_podman_take_it_back(desk: Desk, registry: Server) -> None:
    desk.sh("mkdir tiny; cd tiny; bash /opt/kit/tests/real/tiny.sh > ../tiny.log 2>&1")
    image, uri = "tiny/python.sif", f"docker://{registry.host}/team/python:v1"
    secret = {"http_proxy": "http://ada:geheim@127.0.0.1:9", "no_proxy": "127.0.0.1"}
    sent = json.loads(desk.runner("push", image, uri, "--json", env=secret).stdout)
    uploads = registry.requests('"PUT /v2/team/python/blobs')
    assert uploads == 2
    assert desk.runner("push", image, uri).returncode == 0
    assert registry.requests('"PUT /v2/team/python/blobs') == uploads, "nothing is sent twice"
    done = desk.runner("push", image, "oci-archive:python.tar", "--json", env=secret)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["digest"] == sent["digest"]
    assert desk.sh("tar -xOf python.tar | grep -ac geheim || true").strip() == "0"
    run = "podman run --rm --network=host --ipc=host --cgroups=disabled --entrypoint= python"
    shown = desk.sh(f"podman load -q -i python.tar >&2; {run} python3 -c 'print(6 * 7)'")
    assert shown == "42\n"
    desk.sh("podman rmi -f python")
    assert desk.pull(uri)["manifest"] == sent["digest"]
    desk.sh("apptainer build archive.sif oci-archive:python.tar")
    for sif in ("scratch/images/python_v1.sif", "archive.sif"):
        assert desk.sh(f"apptainer exec {sif} python3 -c 'print(6 * 7)'") == "42\n"
        assert "mine: yes" in desk.sh(f"apptainer inspect {sif}")
    assert desk.sh("find scratch/images/.pulls -mindepth 1 ! -name '*.lock'") == ""
