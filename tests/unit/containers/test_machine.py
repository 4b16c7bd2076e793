"""What a build asks of the machine and of a definition before it starts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from containers import build_modes, definition, log_causes
from runners.core import disk_space
from runners.core.disk_space import Needs, Volume

from .. import sentences

DEFINITION = """\
Bootstrap: {{ bootstrap }}
From: debian:12

%arguments
    bootstrap=docker
    packages=python3 openmpi-bin
    tools=binutils
%post
    other=1
    # {{ no_argument }}; echo "%this is shell, not a section"
"""


def test_arguments_are_read_from_their_section_alone() -> None:
    assert definition.arguments(DEFINITION) == {
        "bootstrap": "docker",
        "packages": "python3 openmpi-bin",
        "tools": "binutils",
    }


def test_a_definition_without_packages_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.def").write_text("Bootstrap: docker\n")
    with sentences.raises("packages-argument-missing"):
        definition.packages(tmp_path / "x.def")


def test_a_good_definition_passes() -> None:
    definition.check(DEFINITION, "x.def", {"bootstrap": "localimage"})
    two = "Bootstrap: docker\nFrom: a\nStage: one\n%post\n  x\n\nBootstrap: scratch\nStage: b\n"
    definition.check(two, "x.def", {})


@pytest.mark.parametrize(
    "text",
    [
        "  # {{ x }}",
        "%post\n  echo # {{ x }}\n  true",
        "%POST\n  true",
        "%%post # why\n  true",
        "%apprun one\n  true",
        "%post\n  echo 'bootstrap: x'",
    ],
)
def test_what_apptainer_builds_passes(text: str) -> None:
    definition.check(f" Bootstrap: docker\nFrom: a\n{text}\n", "x.def", {})


@pytest.mark.parametrize(
    ("text", "given", "id"),
    [
        ("From: a\n", {}, "bootstrap-missing"),
        ("Bootstrap: docker\n%pots\n  x\n", {}, "section-unknown"),
        ("Bootstrap: docker\nForm: a\n", {}, "keyword-unknown"),
        ("Bootstrap: docker\napt-get update\n", {}, "header-malformed"),
        ("Bootstrap: docker\nFrom: {{ base }}\n", {}, "build-arg-missing"),
        ("Bootstrap: docker\n%post\n  %files\n", {}, "section-unknown"),
        ("Bootstrap: docker\n%post\n cat <<E\n%x\nE\n", {}, "section-unknown"),
        ("Bootstrap: docker\n% post\n", {}, "section-unknown"),
        ("Bootstrap: docker\n%apprun\n", {}, "app-not-named"),
        ("Bootstrap: docker\n%post\n  x#{{ y }}\n", {}, "build-arg-missing"),
        (DEFINITION, {"bootsrap": "x"}, "build-arg-unknown"),
    ],
)
def test_a_bad_definition_is_refused_with_its_line(
    text: str, given: dict[str, str], id: str
) -> None:
    with sentences.raises(id):
        definition.check(text, "x.def", given)


def test_the_base_of_a_definition_is_replaced_in_its_first_header() -> None:
    text = "bootstrap: docker\nFrom: a\n\n%post\n    From: here\n"
    changed = definition.with_base(text, "x.sif")
    assert changed == "bootstrap: localimage\nFrom: x.sif\n\n%post\n    From: here\n"
    assert "From: x.sif\n" in definition.with_base("Bootstrap: scratch\n", "x.sif")


SUBORDINATE = "probe id 0\nprobe map          0       1000          1\nprobe map 1 100000 65536\n"


def test_the_mode_is_what_the_tiny_build_showed() -> None:
    found = build_modes.judge(("--fakeroot",), 0, SUBORDINATE + "probe chown yes\n")
    assert found is not None
    assert found.subordinate_ids
    assert "100000 65536" in found.evidence
    mapped = build_modes.judge(("--fakeroot",), 0, "probe id 0\nprobe map 0 1000 1\n")
    assert mapped is not None
    assert mapped.name == "root-mapped namespace"
    assert "one user" in mapped.evidence
    assert not mapped.subordinate_ids
    proot = build_modes.judge((), 0, "probe id 0\nprobe map 0 0 4294967295\n")
    assert proot is not None
    assert proot.name == "proot"


@pytest.mark.parametrize("output", ["", "probe id 1000\n", SUBORDINATE])
def test_a_failed_build_is_no_mode(output: str) -> None:
    assert build_modes.judge((), 1, output) is None
    assert build_modes.judge((), 0, output.replace("id 0", "id 1000")) is None


@pytest.mark.parametrize(
    ("name", "value", "mended"),
    [
        ("kernel.unprivileged_userns_clone", "0", "1"),
        ("user.max_user_namespaces", "0", "15000"),
        ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
    ],
)
def test_the_administrators_command_fits_the_obstacle(name: str, value: str, mended: str) -> None:
    assert build_modes.remedy({name: value}, "ada") == f"sudo sysctl -w {name}={mended}"


WHOLE = "22 1 254:0 / / rw - ext4 /dev/vda rw\n"
CHROOT = "90 22 0:5 / /proc rw - proc proc rw\n"
MORE_IDS = "sudo usermod --add-subuids"


@pytest.mark.parametrize(
    ("mounts", "code", "remedy"),
    [
        (WHOLE, 0, MORE_IDS),
        (WHOLE, 1, MORE_IDS),  # newuidmap may be allowed to
        (CHROOT, 0, MORE_IDS),
        (CHROOT, 1, "leave this container or chroot"),
    ],
)
def test_where_no_namespace_can_be_made_more_ids_do_not_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mounts: str, code: int, remedy: str
) -> None:
    (tmp_path / "mountinfo").write_text(mounts)
    monkeypatch.setattr(build_modes, "MOUNTS", tmp_path / "mountinfo")
    monkeypatch.setattr(build_modes, "OF_CONTAINERS", ())
    for name, text in (("unshare", f"exit {code}"), ("newuidmap", "")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert build_modes.remedy({}, "ada").startswith(remedy)


MOUNTS = r"""/dev/vda / ext4 rw 0 0
server:/home /home nfs4 rw,relatime 0 0
mgs:/l /home/my\040images lustre rw 0 0
tmpfs /homes tmpfs rw 0 0
x /twice autofs rw 0 0
y /twice beegfs rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/a.sif", "ext4"),
        ("/home/a.sif", "nfs4"),
        ("/home/my images/a.sif", "lustre"),
        ("/homes/a.sif", "tmpfs"),
        ("/homesick/a.sif", "ext4"),
        ("/twice/a.sif", "beegfs"),
    ],
)
def test_the_kind_of_file_system_is_that_of_the_nearest_mount(path: str, kind: str) -> None:
    assert disk_space.mount_type(Path(path), MOUNTS) == kind


def volume(**changes: object) -> Volume:
    facts = {"folder": Path("/s"), "bytes": 10**10, "inodes": 10**6, "type": "ext4", "flags": 0}
    return Volume(**{**facts, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "id"),
    [
        (volume(bytes=10**9), "build-space"),
        (volume(inodes=10), "build-inodes"),
        (volume(flags=os.ST_NOEXEC), "build-folder-noexec"),
        (volume(type="tmpfs"), "build-in-memory"),
    ],
)
def test_a_place_where_no_build_can_end_well_is_refused(found: Volume, id: str) -> None:
    with sentences.raises(id):
        disk_space.check_volume(found, Needs(2 * 10**9, 1000), memory=10**9)


def test_what_may_do_harm_is_said() -> None:
    assert disk_space.check_volume(volume(inodes=None), Needs(1, 1), 0) == []
    said = disk_space.check_volume(volume(flags=os.ST_NODEV, type="tmpfs"), Needs(1, 1), 10**9)
    assert len(said) == 2


@pytest.mark.parametrize(
    "line",
    [
        "cp: write error: No space left on device",
        "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM",
        "ERROR: No matching distribution found for six==9",
        "curl: (60) SSL certificate problem: unable",
        "FATAL: ... reading manifest: unauthorized: ...",
        "manifest unknown: manifest unknown",
        "dial tcp 127.0.0.1:5000: connect: connection refused",
        "/bin/sh: exec format error",
        "qemu: uncaught target signal 11 (Segmentation fault)",
    ],
)
def test_a_failure_is_put_in_plain_words_with_its_line(line: str) -> None:
    log = f"INFO: start\n{line}\nFATAL:   While performing build: exit status 1\n"
    assert line[:20] in sentences.said(log_causes.explain(log))


def test_one_user_alone_cannot_give_files_away() -> None:
    found = log_causes.explain(
        "+ chown 5:5 /f\nchown: changing ownership of '/f': Invalid argument\n"
    )
    sentences.said(found)


def test_an_unknown_failure_shows_the_line_before_apptainers_closing_one() -> None:
    log = "x\nE: Version '2' for 'x' was not found\nFATAL:   While performing build: exit 100\n"
    assert log_causes.explain(log) == "  | E: Version '2' for 'x' was not found"
    assert log_causes.explain("all well\n") == ""
    pip = "x.cc:1:2: fatal error: no x.h\nERROR: Failed building wheel for horovod\n"
    assert log_causes.explain(pip) == "  | x.cc:1:2: fatal error: no x.h"
    reason = "CMake Error at x.cmake:21 (message):\n  Could NOT find Pytorch\n"
    said = "  | CMake Error at x.cmake:21 (message):\n  | Could NOT find Pytorch"
    assert log_causes.explain(f"{reason}\nexcept ImportError:\n") == said
    closing = "FATAL:   While performing build: while running %post section: exit status 1\n"
    assert log_causes.explain(f"INFO: a\n+ make\nodd words\n{closing}") == "  | odd words"
    closing = "FATAL:   While performing build: while creating SIF: open x: permission denied"
    assert log_causes.explain(f"+ true\n{closing}\n") == f"  | {closing}"
