"""This machine's Debian archive for an image that has no apt sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from containers import apt
from containers.apt import Source

LISTS = """\
# deb http://a.example/old/debian trixie main
deb http://b.example/tools ./
deb [arch=amd64 signed-by=/k.gpg trusted=yes] http://a.example/debian/ trixie main contrib # why
deb-src http://a.example/debian trixie main
"""
OF_A_MAKER = "deb http://maker.example/linux/debian trixie stable\n"
STANZAS = """\
Types: deb
URIs: http://c.example/debian
Suites: trixie
Components: main
Enabled: no

Types: deb deb-src
# a comment
URIs: http://a.example/debian http://d.example/debian
Suites: trixie trixie-updates
Components: main
 contrib
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 -----END PGP PUBLIC KEY BLOCK-----
"""
OURS = 'NAME="Debian"\nID=debian\nVERSION_CODENAME=bookworm\nAPT=yes\nSOURCES=none\n'


@pytest.mark.parametrize(
    ("text", "release"),
    [
        (OURS, "bookworm"),
        (OURS.replace("SOURCES=none\n", ""), ""),
        (OURS.replace("APT=yes\n", ""), ""),
        (OURS.replace("ID=debian", "ID=ubuntu"), ""),
        ("", ""),
    ],
)
def test_only_a_debian_image_without_sources_gets_them(text: str, release: str) -> None:
    assert apt.parse_release(text) == release


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This machine's /etc/apt, which is empty."""
    monkeypatch.setattr(apt, "APT", tmp_path / "etc")
    (tmp_path / "etc/sources.list.d").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv(apt.MIRROR, raising=False)
    return tmp_path / "etc"


def test_the_first_of_debians_archives_is_used(machine: Path) -> None:
    assert apt.archive({}) is None
    (machine / "sources.list.d/a.list").write_text(OF_A_MAKER)
    assert apt.archive({}) is None
    (machine / "sources.list.d/b.list").write_text("deb file:/d/debian x main\n")
    assert apt.archive({}) == Source("file:/d/debian", "main", {})
    (machine / "sources.list.d/b.list").unlink()
    (machine / "sources.list.d/debian.sources").write_text(STANZAS)
    assert apt.archive({}) == Source("http://a.example/debian", "main contrib", {})
    (machine / "sources.list").write_text(LISTS)
    assert apt.archive({}) == Source("http://a.example/debian", "main contrib", {"trusted": "yes"})
    assert apt.archive({apt.MIRROR: "http://m.example/"}) == Source("http://m.example", "main", {})


def test_another_distribution_has_that_of_mmdebstrap(machine: Path) -> None:
    (machine / "sources.list").write_text("deb http://a.example/ubuntu noble main universe\n")
    program = machine.parent / "bin/mmdebstrap"
    program.write_text("    my $mirror    = 'http://d.example/debian';\n    my $secmirror = 'x';\n")
    program.chmod(0o755)
    assert apt.archive({}) == Source("http://d.example/debian", "main", {})


def test_what_a_build_finds(machine: Path, tmp_path: Path) -> None:
    (machine / "sources.list").write_text(LISTS)
    apt.fill("bookworm", tmp_path / "apt")
    start = "deb [signed-by=KEYRING trusted=yes] http://a.example/debian"
    assert (tmp_path / "apt/sources.list").read_text() == (
        f"{start} bookworm main contrib\n{start} bookworm-updates main contrib\n"
    )
    assert (tmp_path / "apt/apt.conf").stat().st_mode & 0o777 == 0o600


def test_a_machine_without_an_archive_gives_none(machine: Path, tmp_path: Path) -> None:
    apt.fill("bookworm", tmp_path / "apt")
    assert (tmp_path / "apt/sources.list").read_text() == ""
