"""What a cluster can be asked to be: its release, and the names of its nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster import configure, design, rootfs
from tests.cluster.design import Design
from tests.cluster.releases import DEFAULT, RELEASES, Release
from tests.cluster.shell import ClusterError

HERE = Path("/")


def suites(release: Release) -> list[list[str]]:
    """The archive's suites at the end of the command, each with its component."""
    argv = rootfs.mmdebstrap_argv(release, "http://m", HERE, HERE, HERE)
    return [word.split()[-2:] for word in argv if word.startswith("deb ")]


@pytest.mark.parametrize(
    ("name", "expected", "pinned"),
    [
        ("bookworm", ["bookworm", "trixie", "unstable"], ["trixie", "sid"]),
        ("trixie", ["trixie", "unstable"], ["sid"]),
        ("unstable", ["unstable"], []),
    ],
)
def test_all_but_what_a_release_lacks_comes_from_it(
    name: str, expected: list[str], pinned: list[str]
) -> None:
    release = RELEASES[name]
    assert suites(release) == [[suite, "main"] for suite in expected]
    paragraphs = [text.splitlines() for text in release.preferences().split("\n\n") if text]
    assert paragraphs == [
        ["Package: *", f"Pin: release n={code}", "Pin-Priority: 90"] for code in pinned
    ]


def test_each_release_has_a_tree_of_its_own() -> None:
    assert len({rootfs.key(release) for release in RELEASES.values()}) == 3


def test_rootfs_key_does_not_depend_on_the_mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    release = RELEASES[DEFAULT]
    before = rootfs.key(release)
    monkeypatch.setenv("RUNNER_DEBIAN_MIRROR", "http://elsewhere")
    assert rootfs.key(release) == before
    assert rootfs.key(Release("trixie", ("trixie",), ("nothing",), ())) != before


def test_only_slurm_22_05_names_a_kind_of_cgroup() -> None:
    texts = {name: configure.files(Design(name), 0)["slurm/cgroup.conf"] for name in RELEASES}
    assert texts.pop("bookworm").startswith("CgroupPlugin=cgroup/v1\n")
    assert set(texts.values()) == {"CgroupPlugin=disabled\n"}


def test_preemption_and_cgroups_change_nothing_unless_asked_for() -> None:
    plain = configure.files(Design(), 0)["slurm/slurm.conf"]
    assert "proctrack/linuxproc" in plain
    assert "Preempt" not in plain
    asked = configure.files(Design(quirks=("cgroups", "preemption")), 0)
    assert "proctrack/cgroup" in asked["slurm/slurm.conf"]
    assert "PartitionName=low " in asked["slurm/slurm.conf"]
    assert asked["slurm/cgroup.conf"].startswith("CgroupPlugin=cgroup/v1\n")


@pytest.mark.parametrize("count", [0, -1, 65])
def test_number_of_nodes_is_checked(count: int) -> None:
    with pytest.raises(ClusterError, match=f"--nodes {count}: from 1 to 64"):
        design.numbered(count)


def test_names_with_gaps() -> None:
    assert design.named("n1,n2,n5") == ("n1", "n2", "n5")
    assert Design(nodes=("n1", "n5")).hosts == ("login", "n1", "n5")


@pytest.mark.parametrize("text", ["", "n1,", "n1,n1", "N1", "1n", "login,n1", "switch", "a_b"])
def test_names_that_cannot_be_nodes(text: str) -> None:
    with pytest.raises(ClusterError, match=r"--names .*different names of small letters"):
        design.named(text)


def test_memory_limits_come_with_the_tracking_of_processes() -> None:
    asked = configure.files(Design(quirks=("memory-limits",)), 0)
    assert "proctrack/cgroup" in asked["slurm/slurm.conf"]
    assert "TaskPlugin=task/cgroup" in asked["slurm/slurm.conf"]
    assert "ConstrainRAMSpace=yes" in asked["slurm/cgroup.conf"]
    assert "TaskPlugin=task/none" in configure.files(Design(), 0)["slurm/slurm.conf"]
