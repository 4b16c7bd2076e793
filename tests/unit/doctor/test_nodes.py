"""The doctor's findings about nodes, variables and images: facts in, findings out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from runners.contract.interfaces import Interface, Port
from runners.core.disk_space import Volume
from runners.core.errors import SystemFault
from runners.doctor.checks import check_gpus, check_image, check_network, check_variables, scratch
from runners.doctor.checks.check_gpus import Gpu
from runners.doctor.checks.check_network import NodeNetwork
from runners.doctor.checks.scratch import ScratchFolder
from runners.doctor.finding import FAILURE, OK, WARNING
from runners.doctor.timed import Answer
from runners.images.inspect import ImageFact, Inspection

from .test_checks import dumb, named, states, told

# GPUs, network, disk


@pytest.mark.parametrize(
    ("facts", "state", "says"),
    [
        (Gpu("", None, ""), OK, "none on this machine"),
        (Gpu("550.54.15", Answer("nvidia-smi -L", "GPU 0: A100\nGPU 1: A100\n"), ""), OK, "2 GPUs"),
        (Gpu("550.54.15", None, ""), OK, "not on the PATH"),
        (Gpu("550.54.15", dumb("nvidia-smi -L"), ""), FAILURE, "did not answer"),
        (Gpu("", dumb("nvidia-smi -L"), ""), WARNING, "no driver"),
        (Gpu("", None, "6.3.6"), OK, "6.3.6"),
    ],
)
def test_gpus(facts: Gpu, state: str, says: str) -> None:
    found = check_gpus.check(facts)[0]
    assert found.severity == state
    assert says in found.what


ETH = Interface("eth0", "ethernet", True, True, 10000, ("10.77.0.2",))
DEAD = Interface("eth1", "ethernet", True, False, 0, ("192.168.9.1",))
IB = Port("mlx5_0", "1", "infiniband", "ACTIVE", "200 Gb/sec (4X HDR)", 200.0)


def test_a_good_network_is_all_ok() -> None:
    found = check_network.check(NodeNetwork("n1", "10.77.0.2", (ETH,), (IB,)))
    assert states(found) == {"fabric": OK, "interfaces": OK}
    assert named(found, "fabric").what == "infiniband"


@pytest.mark.parametrize(
    ("facts", "name", "says", "fix"),
    [
        (NodeNetwork("n1", "10.0.0.1", (ETH, DEAD)), "dead interfaces", "eth1", "eth0"),
        (NodeNetwork("n1", "10.0.0.1"), "interfaces", "none", "ip address"),
        (NodeNetwork("n1", "127.0.1.1", (ETH,)), "host name", "loopback", "--network-interfaces"),
        (NodeNetwork("n1", "", (ETH,)), "host name", "does not resolve", "getent"),
        (NodeNetwork("n1", None, (ETH,)), "host name", "within 5 s", "getent"),
        (
            NodeNetwork("n1", "10.0.0.1", (ETH,), (IB, replace(IB, device="mlx5_1", state="DOWN"))),
            "ports",
            "mlx5_1:1",
            "NCCL_IB_HCA==mlx5_0:1",
        ),
    ],
)
def test_what_is_wrong_with_the_network(facts: NodeNetwork, name: str, says: str, fix: str) -> None:
    found = named(check_network.check(facts), name)
    assert found.severity == WARNING
    assert says in found.what
    assert fix in told(found)


ROOM = Volume(Path("/scratch/ada"), 500 * 10**9, 10**7, "lustre", 0)


@pytest.mark.parametrize(
    ("volume", "writable", "state", "says"),
    [
        (ROOM, True, OK, "500.0 GB free"),
        (None, True, FAILURE, "did not answer within 10 s"),
        (ROOM, False, FAILURE, "cannot write"),
        (replace(ROOM, bytes=10), True, FAILURE, "no space"),
        (replace(ROOM, bytes=10**10), True, WARNING, "little space: 10.0 GB"),
        (replace(ROOM, inodes=7), True, WARNING, "room for only 7 more files"),
        (replace(ROOM, inodes=None), True, OK, "500.0 GB free"),
        (replace(ROOM, type="tmpfs"), True, WARNING, "in memory"),
        (replace(ROOM, flags=8), True, WARNING, "noexec"),
    ],
)
def test_scratch(volume: Volume | None, writable: bool, state: str, says: str) -> None:
    (found,) = scratch.check((ScratchFolder("scratch", Path("/scratch/ada"), volume, writable),))
    assert found.severity == state
    assert says in found.what
    assert bool(found.remedies) == (state != OK)


# Variables


@pytest.mark.parametrize(
    ("env", "state", "says"),
    [
        ({"HOME": "/home/ada"}, OK, "nothing that concerns a job"),
        ({"SLURM_JOB_ID": "7"}, OK, "kept from sbatch"),
        ({"SBATCH_PARTITION": "gpu"}, OK, "read as a setting"),
        ({"PYTHONPATH": "/x"}, OK, "unset in the job"),
        ({"LD_PRELOAD": "/x.so"}, OK, "unset in the job"),
        ({"HOROVOD_RANK": "3"}, WARNING, "in another job"),
        ({"HOROVOD_CONTROLLER": "mpi"}, WARNING, "overrides the plan's controller"),
        ({"HOROVOD_CYCLE_TIME": "2"}, OK, "passed to the ranks"),
        ({"OMP_NUM_THREADS": "64"}, WARNING, "--cpus-per-task"),
        ({"CUDA_VISIBLE_DEVICES": "0"}, WARNING, "hides GPUs"),
        ({"NCCL_IB_DISABLE": "1"}, WARNING, "disables a fast NCCL transport"),
        ({"NCCL_IB_DISABLE": "0"}, OK, "nothing"),
        ({"https_proxy": "http://proxy:3128"}, OK, "pulls and builds"),
        ({"NCCL_SOCKET_IFNAME": "^ib"}, OK, "passed to the ranks"),
        ({"APPTAINER_BIND": "/data"}, OK, "each container"),
    ],
)
def test_variables(env: dict[str, str], state: str, says: str) -> None:
    (found,) = check_variables.check(env, ["eth0", "lo"])
    assert (found.severity, bool(found.remedies)) == (state, state != OK)
    assert says in found.what


@pytest.mark.parametrize(
    ("name", "value", "gone"),
    [
        ("NCCL_SOCKET_IFNAME", "ib", "ib"),
        ("NCCL_SOCKET_IFNAME", "eth", ""),
        ("NCCL_SOCKET_IFNAME", "=eth", "eth"),
        ("NCCL_SOCKET_IFNAME", "=eth0,ib0", "ib0"),
        ("HOROVOD_GLOO_IFACE", "eth", "eth"),
        ("OMPI_MCA_btl_tcp_if_include", "10.0.0.0/8,eth0", ""),
    ],
)
def test_variables_that_name_interfaces(name: str, value: str, gone: str) -> None:
    found = check_variables.absent_interfaces({name: value}, ["eth0", "lo"])
    assert [told(item) for item in found] == ([f"unset {name}"] if gone else [])
    assert all(f"names {gone}, which" in item.what for item in found)


# An image


def inspection(**facts: str) -> Inspection:
    """Return an inspection with these facts and enough others."""
    given = {"horovod.version": "0.28.1", "architecture": "amd64", "glibc.version": "2.36"}
    names = {**given, **{name.replace("_", "."): text for name, text in facts.items()}}
    return Inspection({name: ImageFact(text, "label") for name, text in names.items()})


def test_facts_of_an_image() -> None:
    (good,) = check_image.facts(inspection())
    assert (good.severity, good.what) == (OK, "Horovod 0.28.1")
    (none,) = check_image.facts(inspection(horovod_version="none"))
    assert (none.severity, told(none)) == (FAILURE, "runner build cpu")
    (torch,) = check_image.facts(inspection(horovod_version="none", torch_version="2.13.0"))
    assert (torch.severity, torch.what) == (OK, "torch 2.13.0; without Horovod")
    problem = SystemFault("nothing can be run in a.sif", "", "runner verify a.sif")
    (odd,) = check_image.facts(replace(inspection(), problem=problem))
    assert (odd.severity, told(odd)) == (WARNING, "runner verify a.sif")
