"""The doctor's questions: what is read from the kernel's files and from programs' words."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from runners.contract import interfaces
from runners.contract.interfaces import Interface, InterfaceAddress, Port
from runners.doctor import timed
from runners.doctor.checks import check_runtime, scratch
from runners.doctor.checks.check_network import NodeNetwork
from runners.doctor.finding import OK, WARNING, About, Finding
from runners.doctor.timed import Subject
from runners.images import container_runtime
from runners.injob import trial

from ..programs import program


def tree(root: Path, files: dict[str, str]) -> str:
    """Write a tree as in /sys; a value `-> TARGET` is a link."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("-> "):
            path.symlink_to(text[3:])
        else:
            path.write_text(text + "\n")
    return str(root)


# Questions


def hanging(folder: Path, name: str) -> None:
    """Put a program that does not end on the PATH."""
    program(folder / name, f"#!{sys.executable}\nimport time\ntime.sleep(60)\n")


def test_a_program_that_hangs_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hanging(tmp_path, "sinfo")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    answer = timed.ask(["sinfo"], seconds=0.5)
    assert answer.problem == "sinfo did not answer within 0 s"


def test_answers_are_never_exceptions(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("no program")
    assert "not on this machine" in timed.ask(["no-such-program"]).problem
    assert "Permission denied" in timed.ask([str(tmp_path / "data")]).problem
    assert timed.ask(["false"]).problem == "false ended with exit code 1"
    assert timed.ask(["echo", "hi"]).shown == "$ echo hi\nhi"


def test_a_subject_that_hangs_keeps_nobody() -> None:
    def forever() -> list[Finding]:
        time.sleep(60)
        return []

    began = time.monotonic()
    found = timed.examine(
        [
            Subject("slow", forever, 0.3),
            Subject("quick", lambda: [About("quick").ok("it", "well")]),
        ]
    )
    assert time.monotonic() - began < 10
    assert [(item.subject, item.severity, item.what) for item in found] == [
        ("slow", WARNING, "did not answer within 0 s"),
        ("quick", OK, "well"),
    ]


def test_what_the_system_refuses_is_a_finding() -> None:
    def broken() -> list[Finding]:
        raise PermissionError(13, "Permission denied", "/sys")

    (found,) = timed.examine([Subject("it", broken)])
    assert (found.severity, found.what) == (WARNING, "could not be looked at")
    assert "Permission denied" in found.evidence


def test_in_time_gives_none_for_what_takes_longer() -> None:
    assert timed.in_time(lambda: 5, 5) == 5
    assert timed.in_time(lambda: time.sleep(30), 0.2) is None
    assert timed.in_time(lambda: os.stat("/no/such"), 5) is None


# Interfaces and ports

ETHERNET = {"type": "1", "flags": "0x1003", "carrier": "1", "speed": "25000"}


def test_interfaces_are_read(tmp_path: Path) -> None:
    files = {f"ens1/{name}": text for name, text in ETHERNET.items()}
    files["ens1/device/driver"] = "-> ../../../drivers/mlx5_core"
    down = {"ib0/type": "32", "ib0/flags": "0x1002", "ib0/speed": "-1"}
    six = [InterfaceAddress("ens1", "fd00::2")]
    six += [InterfaceAddress("ens1", "fe80::1122")]
    found = interfaces.interfaces(tree(tmp_path / "net", {**files, **down}), six)
    assert found == [
        Interface("ens1", "ethernet", True, True, 25000, ("fd00::2",), "mlx5_core"),
        Interface("ib0", "ipoib", False, False),
    ]
    assert found[0].works
    assert not found[1].dead, "it has no address, so nothing takes it"


def test_a_machine_without_such_files_has_none(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere")
    assert interfaces.interfaces(nowhere, []) == []
    assert interfaces.ports(nowhere) == []


@pytest.mark.parametrize(
    ("name", "hardware", "kind"),
    [
        ("eth0", "1", "ethernet"),
        ("ib0", "32", "ipoib"),
        ("hsn0", "1", "slingshot"),
        ("lo", "772", "loopback"),
        ("docker0", "1", "virtual"),
        ("can0", "280", "other"),
    ],
)
def test_kinds_of_interfaces(name: str, hardware: str, kind: str) -> None:
    assert interfaces.kind_of(name, hardware) == kind


PORTS = {
    "mlx5_0/ports/1/state": "4: ACTIVE",
    "mlx5_0/ports/1/rate": "200 Gb/sec (4X HDR)",
    "mlx5_0/ports/1/link_layer": "InfiniBand",
    "mlx5_1/ports/1/state": "1: DOWN",
    "mlx5_1/ports/1/rate": "10 Gb/sec (4X)",
    "mlx5_1/ports/1/link_layer": "Ethernet",
    "rdmap0/ports/1/state": "4: ACTIVE",
    "rdmap0/ports/1/link_layer": "Unspecified",
    "rdmap0/device/driver": "-> ../../../drivers/efa",
}


def test_ports_are_read(tmp_path: Path) -> None:
    root = tree(tmp_path, PORTS)
    assert interfaces.ports(root) == [
        Port("mlx5_0", "1", "infiniband", "ACTIVE", "200 Gb/sec (4X HDR)", 200.0),
        Port("mlx5_1", "1", "roce", "DOWN", "10 Gb/sec (4X)", 10.0),
        Port("rdmap0", "1", "efa", "ACTIVE"),
    ]


def test_the_fastest_fabric_comes_first() -> None:
    there = NodeNetwork(
        "n1",
        "10.0.0.1",
        (Interface("hsn0", "slingshot", True, True, 200000, ("10.1.0.1",)),),
        (
            Port("mlx5_0", "1", "infiniband", "ACTIVE", speed=400.0),
            Port("mlx5_1", "1", "roce", "DOWN", speed=800.0),
        ),
    )
    assert there.fabrics == ("infiniband", "slingshot")


# The image, as one node sees it


def test_a_small_image_is_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "a.sif"
    file.write_bytes(b"x" * 1000)
    seen = trial.view_of_image(str(file))
    assert (seen["size"], seen["of"]) == (1000, "every byte")
    file.write_bytes(b"x" * 999 + b"y")
    assert trial.view_of_image(str(file))["sha256"] != seen["sha256"]


def test_samples_of_a_large_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "WHOLE", 100)
    file = tmp_path / "a.sif"
    file.write_bytes(bytes(10_000_000))
    seen = trial.view_of_image(str(file))
    assert seen["of"] == "header, table and 64 samples of 64 KiB"
    file.write_bytes(bytes(9_999_999) + b"y")
    assert trial.view_of_image(str(file))["sha256"] != seen["sha256"], "the end counts"


def test_an_image_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    assert "No such file" in trial.view_of_image(str(tmp_path / "no.sif"))["problem"]
    assert trial.view_of_image(str(tmp_path))["problem"] == "a folder has no digest"


# Disks and containers


def test_a_place_that_does_not_exist_yet_is_its_parent(tmp_path: Path) -> None:
    found = scratch.ask_folder("runs", tmp_path / "a" / "b")
    assert found.volume is not None
    assert found.writable


def test_subordinate_ids_by_name_or_number(tmp_path: Path) -> None:
    (tmp_path / "subuid").write_text(f"bob:100000:65536\n{os.getuid()}:200000:65536\n")
    (tmp_path / "subgid").write_text("ada:200000:65536\n")
    assert check_runtime.subordinate("ada", str(tmp_path)) == (
        f"{tmp_path}/subuid: {os.getuid()}:200000:65536",
        f"{tmp_path}/subgid: ada:200000:65536",
    )


def test_the_runtimes_configuration() -> None:
    text = "PREFIX=/usr\nAPPTAINER_SUID_INSTALL=1\nnot a setting\n"
    assert container_runtime.parse_config(text)["APPTAINER_SUID_INSTALL"] == "1"
