"""This machine's apt sources for an image of another release."""

from __future__ import annotations

from pathlib import Path

import pytest

from containers import apt
from containers.apt import Source

LISTS = """\
# deb http://a.example/old trixie main
deb [arch=amd64 signed-by=/k.gpg] http://a.example/debian/ trixie main contrib # why
deb-src http://a.example/debian trixie main
deb http://a.example/debian-security trixie-security main
deb http://a.example/debian unstable main
deb http://b.example/tools ./
"""
STANZAS = """\
Types: deb deb-src
# a comment
URIs: http://a.example/debian
Suites: trixie trixie-updates
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc
 -----END PGP PUBLIC KEY BLOCK-----

Types: deb
URIs: http://c.example/debian
Suites: trixie
Components: main
Enabled: no
"""
TRIXIE = {"ID": "debian", "VERSION_CODENAME": "trixie"}


def lines(machine: dict[str, str], codename: str) -> list[str]:
    found = apt.for_release(list(apt.one_line(LISTS)), machine, codename)
    return [source.line() for source in found]


def test_debians_archive_has_each_release_and_another_only_its_own() -> None:
    archive = "deb [arch=amd64 signed-by=/k.gpg] http://a.example/debian/ {} main contrib"
    security = "deb http://a.example/debian-security {}-security main"
    older = [archive.format("bookworm"), security.format("bookworm")]
    assert lines(TRIXIE, "bookworm") == older
    same = [archive.format("trixie"), security.format("trixie"), "deb http://b.example/tools ./ "]
    assert lines(TRIXIE, "trixie") == same
    assert lines({"ID": "rocky"}, "bookworm") == []


def test_the_newer_format_of_sources_is_read_with_its_key() -> None:
    found = list(apt.deb822(STANZAS))
    assert [source.suite for source in found] == ["trixie", "trixie-updates"]
    assert "abc" in found[0].options["signed-by"]


def test_what_a_build_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = tmp_path / "k.gpg"
    key.write_text("key")
    source = Source("http://a.example/debian", "trixie", "main", {"signed-by": str(key)})
    monkeypatch.setattr(apt, "machine_sources", lambda environ: [source])
    monkeypatch.setattr(apt, "parse_release", lambda text: TRIXIE)
    apt.fill(apt.AptImage("bookworm", "/k.pgp"), tmp_path / "apt")
    listed = (tmp_path / "apt/sources.list").read_text()
    assert listed == "deb [signed-by=/mnt/apt/0.gpg] http://a.example/debian bookworm main\n"
    assert (tmp_path / "apt/0.gpg").read_text() == "key"
    assert (tmp_path / "apt/apt.conf").stat().st_mode & 0o777 == 0o600
    official = (tmp_path / "apt/official").read_text()
    assert "Suites: bookworm bookworm-updates\n" in official
    assert official.endswith("Signed-By: /k.pgp\n")
