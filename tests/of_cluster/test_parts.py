"""The pure parts of tests/cluster: no root, no namespaces, no network."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import containers.apt
from tests.cluster import apt, host, namespaces, processes, slurm
from tests.cluster.design import Design
from tests.cluster.namespaces import Bind
from tests.cluster.shell import ClusterError, Unsupported, run, shown
from tests.cluster.state import Settings, State, cache_root


def test_no_archive_names_the_variable_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers.apt, "archive", lambda environ: None)
    with pytest.raises(Unsupported, match="RUNNER_DEBIAN_MIRROR=") as caught:
        apt.host_mirror({})
    assert caught.value.exit_code == 2


def test_missing_capabilities_are_named() -> None:
    assert host.missing_capabilities("CapEff:\t000001ffffffffff\n") == []
    without = 0x1FFFFFFFFFF & ~(1 << 21)
    assert host.missing_capabilities(f"CapEff:\t{without:016x}\n") == ["CAP_SYS_ADMIN"]


@pytest.mark.parametrize(
    ("text", "healthy"),
    [
        ("n1 idle\nn1 idle\nn2 mixed\n", True),
        ("n1 idle\nn2 idle*\n", False),
        ("n1 idle\nn2 inval\n", False),
        ("n1 idle\n", False),
        ("", False),
    ],
)
def test_node_states(text: str, healthy: bool) -> None:
    assert slurm.all_healthy(slurm.parse_node_states(text), ["n1", "n2"]) is healthy


def test_bind_is_read_only_unless_told(tmp_path: Path) -> None:
    assert Bind.parse(f"{tmp_path}:/mnt") == Bind(tmp_path, "/mnt", read_only=True)
    assert Bind.parse(f"{tmp_path}:/mnt:rw") == Bind(tmp_path, "/mnt", read_only=False)
    assert Bind.parse(str(tmp_path)) == Bind(tmp_path, str(tmp_path))


@pytest.mark.parametrize("text", ["/:/mnt:rx", ":/mnt", "/no/such/folder:/mnt"])
def test_bad_bind(text: str) -> None:
    with pytest.raises(ClusterError, match="--bind"):
        Bind.parse(text)


def test_root_script_quotes_every_path(tmp_path: Path) -> None:
    odd = tmp_path / "a 0'; echo foo, b:c"
    odd.mkdir()
    text = namespaces.root_script(odd, odd, [Bind(odd, "/mnt/$x y")], hostname="n1")
    assert run(["sh", "-n"], stdin=text) == ""
    assert "lowerdir=lower,upperdir=upper" in text
    assert "'./mnt/$x y'" in text


def test_root_script_is_the_same_twice(tmp_path: Path) -> None:
    binds = [Bind(tmp_path, "/x")]
    assert namespaces.root_script(tmp_path, tmp_path, binds) == namespaces.root_script(
        tmp_path, tmp_path, binds
    )


def test_login_starts_from_an_empty_environment() -> None:
    argv = namespaces.login_argv(["echo", "a b"], term="xterm")
    assert argv[argv.index("env") + 1] == "-i"
    assert "HOME=/home/ada" in argv
    assert argv[-3:] == ["/scratch/ada", "echo", "a b"]
    assert "HOME=/root" in namespaces.login_argv(["true"], user="root")


def test_mounts_below_a_folder_deepest_first() -> None:
    info = (
        "1 0 0:1 / / rw - ext4 a rw\n"
        "2 1 0:2 / /state/ns/n1 rw - nsfs nsfs rw\n"
        "3 1 0:3 / /state/ns/a\\040b rw - nsfs nsfs rw\n"
        "4 1 0:4 / /state/nsx rw - nsfs nsfs rw\n"
    )
    assert processes.mounts_below(Path("/state/ns"), info) == [
        Path("/state/ns/n1"),
        Path("/state/ns/a b"),
    ]


def test_own_process_is_found_by_its_namespace() -> None:
    inode = os.stat("/proc/self/ns/net").st_ino
    assert os.getpid() in processes.members("net", [inode])


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"RUNNER_CACHE": "/c", "XDG_CACHE_HOME": "/x"}, "/c"),
        ({"XDG_CACHE_HOME": "/x"}, "/x/horovod-runner"),
    ],
)
def test_cache_root(environ: dict[str, str], expected: str) -> None:
    assert cache_root(environ) == Path(expected)


def test_two_states_share_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNNER_CACHE", "/c")
    assert State.locate().root == Path("/c/cluster")
    assert State.locate("/other") == State(Path("/c"), Path("/other"))


def test_settings_come_back(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    assert Settings.load(path) == Settings()
    Settings("f", 3, Design("bookworm", ("n1", "n5"))).save(path)
    assert Settings.load(path) == Settings("f", 3, Design("bookworm", ("n1", "n5")))


def test_a_failed_command_shows_its_evidence() -> None:
    with pytest.raises(ClusterError, match=r"exit 3 from: sh -c .*\nbad news"):
        run(["sh", "-c", "echo bad news >&2; exit 3"])
    with pytest.raises(ClusterError, match="is not installed"):
        run(["no-such-command-here"])
    assert shown(["sh", "-c", "one\ntwo"]) == "sh -c one..."
