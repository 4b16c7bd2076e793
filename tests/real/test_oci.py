"""OCI images: made of a SIF, pushed, pulled back by Apptainer, and run by Podman on two nodes.

podman-hpc is Podman with NERSC's store and options. What `runner` types for it runs here in Podman.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator

import pytest

from tests import documents

from . import servers
from .conftest import IMAGE, Done, Login, on_cluster, succeeded
from .desk import Desk, desk, registry, shop
from .servers import Server

slow = pytest.mark.slow  # they push the CPU image, or build it

__all__ = ["desk", "registry", "shop"]  # pytest looks for fixtures among a module's names
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
HOME = "/home/ada/.config/containers"


# In place of NERSC's podman-hpc, which runs what it is given in Podman, among options of its own.
PODMAN_HPC = """#!/bin/sh
[ "$1 $2" = "run --rm" ] || exit 99
shift 2
exec podman run --rm --cgroups=disabled --entrypoint= "$@"
"""

# Meet as ranks do: by the run's folder, which Podman mounts, and the nodes' own network.
MEET = """
import json, os, socket, time
place = os.path.join(os.environ["OUTPUT_DIR"], "place")
assert os.environ["container"] == "podman"
if os.environ["SLURM_PROCID"] == "0":
    with socket.create_server((socket.gethostbyname(socket.gethostname()), 0)) as server:
        with open(place + ".part", "w") as file:
            json.dump(server.getsockname(), file)
        os.rename(place + ".part", place)
        other = server.accept()[0].makefile().read()
    with open(os.path.join(os.environ["OUTPUT_DIR"], "result.json"), "w") as file:
        json.dump({"met": [socket.gethostname(), other]}, file)
else:
    while not os.path.exists(place):
        time.sleep(0.05)
    with open(place) as file, socket.create_connection(json.load(file)) as connection:
        connection.sendall(socket.gethostname().encode())
"""


@pytest.fixture(scope="module")
def nodes_registry(shop: Login) -> Iterator[str]:
    """A registry that the nodes reach, and Podman's store on each node's disk, as sites have it."""
    with servers.registry(shop, "for-nodes", "http: {addr: '0.0.0.0:0'}") as server:
        host = f"login:{server.port}"
        shop.sh(
            f"mkdir -p {HOME}; cd {HOME}\n"
            f"printf '[[registry]]\\nlocation=\"{host}\"\\ninsecure=true\\n' > registries.conf\n"
            'printf \'[storage]\\ndriver="overlay"\\nrootless_storage_path="/tmp/store-$UID"\\n\''
            " > storage.conf"
        )
        try:
            yield host
        finally:
            for node in ("n1", "n2"):
                on_cluster(["podman", "system", "reset", "--force"], node=node)
            shop.sh(f"rm -r {HOME}")


@pytest.fixture(scope="module")
def pushed(shop: Login, nodes_registry: str) -> tuple[str, str]:
    """Our image in that registry: its name there, and its digest."""
    name = f"{nodes_registry}/team/horovod:v1"
    done = succeeded(shop.runner("push", "--no-https", "--json", IMAGE, f"docker://{name}"))
    return name, json.loads(done.stdout)["manifest"]


@pytest.fixture(scope="module")
def tiny(shop: Login) -> str:
    """The path of an image with Python, for what needs no framework."""
    shop.sh("mkdir tiny; cd tiny; bash /opt/kit/tests/real/tiny.sh > ../tiny.log 2>&1")
    return f"{shop.folder}/tiny/python.sif"


@slow
def test_the_trainers_are_a_layer_of_their_own(shop: Login, pushed: tuple[str, str]) -> None:
    name, digest = pushed
    where = f"http://{name.replace('/', '/v2/', 1).replace(':v1', '')}/manifests/{digest}"
    accept = "'Accept: application/vnd.oci.image.manifest.v1+json'"
    environment, trainers = json.loads(shop.sh(f"curl -sS -H {accept} {where}"))["layers"]
    assert environment["mediaType"] == trainers["mediaType"] == LAYER
    assert trainers["size"] < 1_000_000 < environment["size"]


def launch(desk: Desk, image: str, *words: str) -> Done:
    """Type the guide's command with this image and further words."""
    command = shlex.split(documents.command("runner launch --runtime podman-hpc "))
    command[command.index("--image") + 1] = image
    desk.sh(f"mkdir bin; cat > bin/podman-hpc <<'EOF'\n{PODMAN_HPC}EOF\nchmod 755 bin/podman-hpc")
    path = desk.sh('printf %s "$PATH"')
    env = {"PATH": f"{desk.folder}/bin:{path}"}
    return desk.runner(*command[1:-1], "--wait", *words, env=env)


def test_podman_hpcs_line_starts_ranks_on_two_nodes_that_meet(
    desk: Desk, tiny: str, nodes_registry: str
) -> None:
    name = f"{nodes_registry}/team/python:v1"
    succeeded(desk.runner("push", tiny, f"docker://{name}"))
    succeeded(launch(desk, name, "--no-gate", desk.write("meet.py", MEET)))
    assert desk.told("result")["met"] == ["n1", "n2"]


@slow
@pytest.mark.parametrize(("runtime", "controller"), [("podman-hpc", "gloo"), ("podman", "mpi")])
def test_podman_trains_on_two_nodes(
    desk: Desk, pushed: tuple[str, str], runtime: str, controller: str
) -> None:
    """podman-hpc brings an MPI's sockets by modules of its own: Podman's own line has them."""
    words = ["--runtime", runtime, "--controller", controller, "torch_mnist", "--", "--epochs", "1"]
    done = launch(desk, pushed[0], *words)
    log = desk.sh("cat runs/*/logs/job.log")
    assert done.returncode == 0, done.stderr + log
    assert "one world of 2 ranks" in log


def test_apptainer_and_podman_take_it_back(desk: Desk, tiny: str, registry: Server) -> None:
    uri = f"docker://{registry.host}/team/python:v1"
    secret = {"http_proxy": "http://ada:geheim@127.0.0.1:9", "no_proxy": "127.0.0.1"}
    sent = desk.told("push", tiny, uri, env=secret)
    uploads = registry.requests('"PUT /v2/team/python/blobs')
    assert uploads == 2
    assert desk.runner("push", tiny, uri).returncode == 0
    assert registry.requests('"PUT /v2/team/python/blobs') == uploads, "nothing is sent twice"
    api = f"http://{registry.host}/v2/team/python"
    asked = f"curl -sS -H 'Accept: application/vnd.oci.image.manifest.v1+json' {api}/manifests/v1"
    settings = json.loads(desk.sh(asked))["config"]["digest"]
    assert "geheim" not in desk.sh(f"curl -sS {api}/blobs/{settings}")
    run = "podman run --rm --tls-verify=false --network=host --ipc=host --cgroups=disabled"
    name = uri.removeprefix("docker://")
    shown = desk.sh(f"{run} --quiet --entrypoint= {name} python3 -c 'print(6 * 7)'")
    assert shown == "42\n"
    desk.sh(f"podman rmi -f {name}")
    assert desk.pull(uri)["manifest"] == sent["digest"]
    sif = "scratch/images/python_v1.sif"
    assert desk.sh(f"apptainer exec {sif} python3 -c 'print(6 * 7)'") == "42\n"
    assert "mine: yes" in desk.sh(f"apptainer inspect {sif}")
    assert desk.sh("find scratch/images/.pulls -mindepth 1 ! -name '*.lock'") == ""
