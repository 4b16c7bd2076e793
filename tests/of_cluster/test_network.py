"""Addresses and names of the cluster's nodes, with and without quirks."""

from __future__ import annotations

import pytest

from tests.cluster import network, slurm
from tests.cluster.design import QUIRKS, Design

PLAIN = Design()


def hosts_file(*quirks: str) -> list[str]:
    """Lines of n1's /etc/hosts after localhost's."""
    return network.hosts_file(Design(quirks=quirks), "n1").splitlines()[2:]


def interfaces(*quirks: str) -> list[tuple[str, str]]:
    """Interfaces of n1 with their addresses."""
    return network.interface_addresses(Design(quirks=quirks), "n1")


def test_addresses_are_distinct_and_in_the_hosts_file() -> None:
    design = Design(nodes=("n1", "n2", "n5"))
    assert len(set(network.addresses(design.hosts).values())) == 4
    assert network.hosts_file(design, "n5").splitlines() == [
        "127.0.0.1 localhost",
        "::1 ip6-localhost",
        *("10.77.0.1 login", "10.77.0.2 n1", "10.77.0.3 n2", "10.77.0.4 n5"),
    ]


def test_without_quirks_there_is_one_interface() -> None:
    assert interfaces() == [("eth0", "10.77.0.2/16")]


def test_loopback_name_changes_the_nodes_own_name_only() -> None:
    assert hosts_file("loopback-name") == ["10.77.0.1 login", "127.0.1.1 n1", "10.77.0.3 n2"]


def test_dead_interface_comes_first_and_has_an_address() -> None:
    assert interfaces("dead-interface") == [("eno1", "10.66.0.2/16"), ("eth0", "10.77.0.2/16")]


def test_ipv6_names_keep_the_other_address_of_the_interface() -> None:
    assert hosts_file("ipv6-names") == ["fd77::1 login", "fd77::2 n1", "fd77::3 n2"]
    assert interfaces("ipv6-names") == [("eth0", "10.77.0.2/16"), ("eth0", "fd77::2/64")]


def test_ipv6_only_has_no_other_address() -> None:
    assert interfaces("ipv6-only") == [("eth0", "fd77::2/64")]


def test_quirks_go_together() -> None:
    assert hosts_file("ipv6-only", "loopback-name")[:2] == ["fd77::1 login", "127.0.1.1 n1"]
    assert [name for name, _ in interfaces(*QUIRKS)] == ["eno1", "eth0"]


@pytest.mark.parametrize(
    ("quirk", "line"),
    [
        ("ipv6-only", "CommunicationParameters=EnableIPv6,DisableIPv4\n"),
        ("ipv6-names", "CommunicationParameters=EnableIPv6\n"),
    ],
)
def test_slurm_itself_must_be_told_of_ipv6(quirk: str, line: str) -> None:
    assert line in slurm.slurm_conf(Design(quirks=(quirk,)), 0)
    assert "CommunicationParameters" not in slurm.slurm_conf(PLAIN, 0)
