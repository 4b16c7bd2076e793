"""Slurm's configuration of the default cluster and of those like real sites."""

from __future__ import annotations

import pytest

from tests.cluster import accounting, configure, slurm
from tests.cluster.design import NO_USER_NAMESPACES, Design
from tests.cluster.flavours import FLAVOURS
from tests.cluster.shell import run

PLAIN = Design(nodes=("n1", "n2", "n3"))


def like(name: str) -> Design:
    """The design of `up --like NAME`."""
    return Design(nodes=FLAVOURS[name].nodes, like=name)


def lines(design: Design, word: str) -> list[str]:
    """Lines of slurm.conf that begin with *word*."""
    text = slurm.slurm_conf(design, first_job=7000)
    return [line for line in text.splitlines() if line.startswith(word)]


def test_slurm_conf_names_each_node_and_types_the_gpus() -> None:
    assert lines(PLAIN, "NodeName=") == [
        "NodeName=n1,n2,n3 CPUs=8 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=8192 "
        "Gres=gpu:A100:4 Feature=x86_64 State=UNKNOWN"
    ]
    assert lines(PLAIN, "FirstJobId=") == ["FirstJobId=7000"]
    assert slurm.gres_conf(PLAIN.flavour).splitlines() == [
        "AutoDetect=off",
        "NodeName=n1,n2,n3 Name=gpu Type=A100 File=/dev/gpu[0-3]",
    ]


def test_the_default_cluster_has_neither_accounts_nor_rules() -> None:
    assert lines(PLAIN, "AccountingStorage") == []
    assert lines(PLAIN, "JobSubmitPlugins") == []
    assert set(configure.files(PLAIN, 0)) == {
        *(f"slurm/{name}.conf" for name in ("slurm", "gres", "cgroup")),
        *(f"hosts/{name}" for name in ("login", "n1", "n2", "n3")),
        "profile/site.sh",
    }


def test_each_node_starts_its_own_daemon() -> None:
    flavour = PLAIN.flavour
    assert "\nslurmctld\n" in slurm.start_script(PLAIN, "login")
    assert "\nslurmd\n" in slurm.start_script(PLAIN, "n1")
    assert slurm.daemons(flavour, "login") == ("munged", "slurmctld")
    assert slurm.daemons(flavour, "n1") == ("munged", "slurmd")


def test_only_compute_nodes_refuse_namespaces() -> None:
    design = Design(quirks=(NO_USER_NAMESPACES,))
    assert "\nslurmctld\n" in slurm.start_script(design, "login")
    assert "/refuse.py 10000000 28 slurmd\n" in slurm.start_script(design, "n1")


@pytest.mark.parametrize("name", FLAVOURS)
def test_scripts_of_every_flavour_are_shell(name: str) -> None:
    design = like(name)
    for node in design.hosts:
        assert run(["bash", "-n"], stdin=slurm.start_script(design, node)) == ""


@pytest.mark.parametrize("name", FLAVOURS)
def test_partitions_of_every_flavour_have_nodes_and_one_is_the_default(name: str) -> None:
    flavour = FLAVOURS[name]
    assert len(set(flavour.nodes)) == len(flavour.nodes)
    assert all(place < len(flavour.kinds) for part in flavour.partitions for place in part.kinds)
    assert sum("Default=YES" in part.options for part in flavour.partitions) == 1


def test_neuron_has_a_partition_for_each_kind_of_node() -> None:
    parts = lines(like("neuron"), "PartitionName=")
    assert parts[0] == (
        "PartitionName=amd_a100nv_8 Nodes=gpu01,gpu02 Default=YES MaxTime=2-00:00:00 State=UP"
    )
    assert len(parts) == 8  # seven kinds, and one whose GPUs are divided (MIG)
    assert lines(like("neuron"), "JobSubmitPlugins") == ["JobSubmitPlugins=lua"]


def test_perlmutter_has_threads_features_and_accounts() -> None:
    first = lines(like("perlmutter"), "NodeName=")[0]
    assert "CPUs=128 CoresPerSocket=64 ThreadsPerCore=2" in first
    assert "Gres=gpu:a100:4 Feature=gpu,a100,hbm40g" in first
    assert "AccountingStorageEnforce=associations,limits,qos" in lines(
        like("perlmutter"), "AccountingStorage"
    )
    assert slurm.daemons(FLAVOURS["perlmutter"], "login")[2:] == accounting.DAEMONS


def test_a_node_makes_as_many_stand_in_gpus_as_it_has() -> None:
    design = like("alvis")
    assert "number < 8;" in slurm.start_script(design, "alvis1-01")
    assert "number < 2;" in slurm.start_script(design, "alvis2-01")
    assert "number < 0;" in slurm.start_script(design, "login")


def test_accounts_are_made_after_the_cluster() -> None:
    script = accounting.start_script("x", ["add account a"])
    assert "\nadd cluster x\nadd account a\nEND\n" in script
    assert script.index("mariadbd") < script.index("\nslurmdbd\n") < script.index("sacctmgr")
