"""Images made from others: what is inherited, what pip is asked and what it answers."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from containers import added_packages, definition, import_added, lockfile, pip
from containers.definition import Base
from containers.pip import Addition

from .. import sentences

BASE = Base(
    Path("/images/base.sif"), "d" * 64, {"mine": "yes", "org.label-schema.build-date": "today"}, 10
)
LISTING = """\
:env:.cert='/etc/ca.crt'
global.cert='/old.crt'
global.extra-index-url='https://a.example/simple\\nfile:///srv/pypi/simple'
global.find-links='wheels /srv/links'
global.target='/home/me'
install.index-url='https://b.example/simple'
"""


def test_the_machines_settings_say_only_where_packages_come_from() -> None:
    assert pip.parse_settings(LISTING) == {
        "cert": "/etc/ca.crt",
        "extra-index-url": "https://a.example/simple\nfile:///srv/pypi/simple",
        "find-links": "wheels /srv/links",
        "index-url": "https://b.example/simple",
    }


def test_the_users_options_come_before_the_machines() -> None:
    source = pip.PackageSource(
        index_url="https://mine.example", extra_index_url="https://more.example"
    )
    found = pip.settings(pip.parse_settings(LISTING), source, Path("/here"))
    assert found["index-url"] == "https://mine.example"
    assert found["extra-index-url"].split()[-1] == "https://more.example"
    assert found["find-links"] == "file:///here/wheels file:///srv/links"


def test_a_wheelhouse_is_the_only_place() -> None:
    found = pip.settings(
        pip.parse_settings(LISTING), pip.PackageSource(Path("/my wheels")), Path("/here")
    )
    assert found == {"no-index": "true", "find-links": "file:///my%20wheels"}
    assert list(pip.local_paths(found)) == [Path("/my wheels")]


def test_local_places_are_bound_and_an_index_with_its_files() -> None:
    found = pip.settings(pip.parse_settings(LISTING), pip.PackageSource(), Path("/here"))
    shown = set(pip.local_paths(found))
    assert shown == {
        Path("/etc/ca.crt"),
        Path("/srv/pypi"),
        Path("/here/wheels"),
        Path("/srv/links"),
    }


def test_a_sites_authority_takes_the_place_of_the_certificate() -> None:
    found = pip.settings({"cert": "/old.crt"}, pip.PackageSource(), Path("/"), "/mnt/ca.crt")
    assert pip.render_settings(found) == "[global]\ncert = /mnt/ca.crt\n"


def test_lists_are_written_so_that_pip_reads_them() -> None:
    text = pip.render_settings({"find-links": "file:///a file:///b", "timeout": "9"})
    assert text == "[global]\nfind-links = file:///a\n    file:///b\ntimeout = 9\n"


def test_labels_of_the_base_survive_and_its_digest_is_told() -> None:
    found = definition.labels(BASE, "2026-01-01T00:00:00Z")
    assert found == {
        "mine": "yes",
        "org.opencontainers.image.created": "2026-01-01T00:00:00Z",
        "org.opencontainers.image.base.name": "base.sif",
        "org.opencontainers.image.base.digest": f"sha256:{'d' * 64}",
    }
    assert definition.render_labels({"a": "two\nlines"}) == "a two lines\n"


def test_both_definitions_are_ones() -> None:
    definition.check(definition.with_packages("base.sif", "/usr/bin/python3"), "x", {})
    text = definition.with_definition(BASE, "Bootstrap: docker\nFrom: x\n%post\n  y\n", "my.def")
    definition.check(text, "x", {})
    assert text.startswith("Bootstrap: localimage\nFrom: /images/base.sif\n%post\n  y\n")
    assert text.rstrip().endswith("fi")


@pytest.mark.parametrize(
    ("text", "path", "id"),
    [
        (
            "Bootstrap: docker\nStage: a\n\nBootstrap: docker\nStage: b\n",
            "/b.sif",
            "from-with-stages",
        ),
        ("Bootstrap: docker\nFrom: a\n", "/b #1.sif", "from-path-malformed"),
    ],
)
def test_a_definition_that_cannot_be_put_on_a_base_is_refused(
    text: str, path: str, id: str
) -> None:
    with sentences.raises(id):
        definition.with_definition(Base(Path(path), "", {}, 0), text, "my.def")


def report(**download: object) -> str:
    item = {"metadata": {"name": "a", "version": "1"}, "download_info": download}
    return json.dumps({"version": "1", "install": [item]})


def test_what_pip_would_install_is_pinned_with_its_hash() -> None:
    text = report(url="https://x/a-1.whl", archive_info={"hashes": {"sha256": "f" * 64}})
    assert added_packages.pins(pip.additions(text)) == f"a==1 --hash=sha256:{'f' * 64}\n"


def test_hashes_are_left_out_unless_all_are_known() -> None:
    direct = Addition("b", "2", url="git+https://x/b")
    assert added_packages.pins([Addition("a", "1", "f"), direct]) == "a==1\nb @ git+https://x/b\n"


def test_packages_of_the_image_are_held_and_odd_versions_left_to_themselves() -> None:
    found = {"torch": "2.13.0+cpu", "apt": "2.6.1ubuntu1.2", "a": "1.0.post1"}
    assert added_packages.constraints(found) == "a==1.0.post1\ntorch==2.13.0+cpu\n"


def test_a_conflict_names_the_package_that_stays() -> None:
    log = "The conflict is caused by:\n  gamma 1 depends on numpy<2\n"
    assert added_packages.held(log) == []
    log += "    The user requested (constraint) numpy==2.4.0\n"
    assert added_packages.held(log) == ["numpy==2.4.0"]


@pytest.mark.parametrize(
    ("log", "name"),
    [
        ("ERROR: No matching distribution found for foo==3\n", "foo==3"),
        ("that satisfies the requirement foo<3 (from versions: none)", "foo<3"),
        ("something else", ""),
    ],
)
def test_the_missing_package_is_found_in_the_log(log: str, name: str) -> None:
    assert pip.missing(log) == name


def test_the_pin_of_a_wheel_has_its_name_as_indexes_write_it(tmp_path: Path) -> None:
    wheel = tmp_path / "Zope.Thing_x-1.0+cpu-py3-none-any.whl"
    wheel.write_bytes(b"wheel")
    digest = hashlib.sha256(b"wheel").hexdigest()
    assert lockfile.pin_of(wheel).line() == f"zope-thing-x==1.0+cpu --hash=sha256:{digest}"


def test_a_mount_takes_any_name() -> None:
    assert added_packages.mount(Path('/a,"b'), "/mnt", "ro") == (
        '"type=bind","source=/a,""b","destination=/mnt","ro"'
    )


def package(folder: Path, name: str, text: str, *beside: str) -> None:
    """An installed package with a module of its name and others."""
    info = folder / f"{name}-1.dist-info"
    info.mkdir(parents=True)
    files = [f"{name}/__init__.py", *beside]
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))


def imported(folder: Path, name: str) -> tuple[int, str]:
    (folder / "names").write_text(name)
    command = [sys.executable, import_added.__file__, str(folder / "names")]
    environ = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(command, env=environ, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("pass", 0, "importing alpha_one\n"),
        ("raise RuntimeError('operator a::nms does not exist')", 1, "RuntimeError: operator a"),
        ("raise SystemExit(3)", 1, "alpha_one cannot be imported in the image: SystemExit: 3"),
        ("raise OSError('libcuda.so.1: cannot open')", 0, "warning: without a GPU alpha_one"),
    ],
)
def test_an_added_package_is_imported_before_the_image_is_packed(
    text: str, code: int, message: str, tmp_path: Path
) -> None:
    package(tmp_path, "alpha_one", text, "tests/__init__.py")
    found, said = imported(tmp_path, "alpha_one")
    assert (found, message in said) == (code, True), said
    assert "importing tests" not in said


def test_modules_of_other_names_are_imported_but_no_leftovers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(tmp_path, "scikit", "", "sklearn/__init__.py", "tests/__init__.py", "_x.py", "y.py")
    (tmp_path / "scikit-1.dist-info" / "RECORD").write_text(
        "sklearn/__init__.py,,\ntests/__init__.py,,\n_x.py,,\ny.py,,\nsklearn/deep/a.py,,\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert import_added.modules("scikit") == {"sklearn", "y"}


def test_only_what_the_user_asked_for_is_imported() -> None:
    item = {"metadata": {"name": "a", "version": "1"}, "download_info": {"url": "u"}}
    text = json.dumps({"install": [{**item, "requested": True}, item]})
    assert [addition.requested for addition in pip.additions(text)] == [True, False]
