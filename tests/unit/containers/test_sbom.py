"""The bill of materials: valid by the official schema, the same each time, nothing guessed."""

from __future__ import annotations

import json
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

import pytest
from packageurl import PackageURL

from containers.horovod_image import sbom

from ..tables import each

DEBIAN = {"ID": "debian", "VERSION_ID": "12"}
DEP5 = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/

Files: *
License: GPL-2+
 Long text.

Files: a b
License: Expat
License: GPL-2+ or Artistic
License:
License: Permission is hereby granted, free of charge, to any person obtaining a copy of this
"""
LOCK = (
    f"a-b==1.0 --hash=sha256:{'1' * 64}\nc==2 --hash=sha256:{'2' * 64} --hash=sha256:{'3' * 64}\n"
)


class Package(Distribution):
    """An installed package with the given metadata."""

    def __init__(self, **fields: str) -> None:
        self.text = "".join(f"{key.replace('_', '-')}: {text}\n" for key, text in fields.items())

    def read_text(self, filename: str) -> str | None:
        return self.text if filename == "METADATA" else None

    def locate_file(self, path: Any) -> Any:
        raise FileNotFoundError(path)


def made(folder: Path, epoch: str = "0") -> dict[str, Any]:
    """Return a bill with this machine's own Python packages and two of Debian's."""
    (folder / "bash").mkdir()
    (folder / "bash" / "copyright").write_text(DEP5)
    listing = "zlib1g\t1:1.3.dfsg+really1.3.1-1\tamd64\nbash\t5.2~x+b1\tamd64\n"
    found = [sbom.python_component(package, {}) for package in distributions()]
    found += sbom.debian_components(listing, DEBIAN, folder)
    return sbom.document(found, DEBIAN, epoch)


def test_the_official_schema_accepts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bill = made(tmp_path)
    # The grammar of IRIs takes the validator as long to read as all else here, and a bill has none:
    # without it they alone are not looked at, which tests/real/test_proof.py does with an image's.
    monkeypatch.setitem(sys.modules, "rfc3987_syntax", None)
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(bill))
    assert problem is None, problem
    names = [item["bom-ref"] for item in bill["components"][1:]]
    assert names == sorted(names)
    assert "serialNumber" not in bill
    assert bill["metadata"]["timestamp"] == "1970-01-01T00:00:00Z"


def test_package_urls_are_canonical(tmp_path: Path) -> None:
    for item in made(tmp_path)["components"][1:]:
        assert PackageURL.from_string(item["purl"]).to_string() == item["purl"]


def test_without_a_time_there_is_none(tmp_path: Path) -> None:
    assert "timestamp" not in made(tmp_path, epoch="")["metadata"]


def test_a_hash_only_where_it_is_certain() -> None:
    hashes = sbom.locked_hashes(LOCK)
    one = sbom.python_component(Package(Name="A_b", Version="1.0"), hashes)
    two = sbom.python_component(Package(Name="c", Version="2"), hashes)
    assert one["hashes"] == [{"alg": "SHA-256", "content": "1" * 64}]
    assert one["purl"] == "pkg:pypi/a-b@1.0"
    assert "hashes" not in two


def test_the_images_version_is_horovods() -> None:
    horovod = sbom.python_component(Package(Name="horovod", Version="0.28.1"), {})
    assert sbom.document([horovod], DEBIAN, "")["metadata"]["component"]["version"] == "0.28.1"


@each(
    ("MIT AND Zlib", "x", [], [{"expression": "MIT AND Zlib"}]),
    ("", "Apache 2.0", [sbom.OSI + "X"], [{"license": {"id": "Apache-2.0"}}]),
    ("", "BSD", [], [{"license": {"name": "BSD"}}]),
    ("", "A long text\nof the licence", [sbom.OSI + "MIT License"], None),
    ("", "", ["Programming Language :: C"], []),
)
def test_licences_of_python(
    expression: str, text: str, classifiers: list[str], expected: Any
) -> None:
    mit = [{"license": {"id": "MIT"}}]
    wanted = mit if expected is None else expected
    assert sbom.python_licences(expression, text, classifiers) == wanted


def test_licences_of_debian() -> None:
    assert sbom.debian_licences(DEP5) == [
        {"license": {"name": "GPL-2+ or Artistic"}},
        {"license": {"id": "GPL-2.0-or-later"}},
        {"license": {"id": "MIT"}},
    ]
    free = "On Debian systems see /usr/share/common-licenses/GPL-2.\n"
    assert sbom.debian_licences(free) == [{"license": {"name": "GPL-2"}}]
    assert sbom.debian_licences("Do as you like.") == []
