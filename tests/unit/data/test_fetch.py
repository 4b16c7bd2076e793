"""Fetching: a real server with real faults, archives of strangers, the catalogue."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runners.core import digest, disk_space
from runners.data import dataset_catalogue, fetch, manifest
from runners.data.dataset_catalogue import CatalogueEntry, DatasetFile
from tests import faulty
from tests.unit.listener import Said

from .. import sentences

CONTENT = bytes(range(256)) * 400


class Web:
    """The server with faults, a scratch folder, and one dataset of one file."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.asked, self.say = folder, [], Said()  # type: ignore[var-annotated]
        self.server = faulty.server(folder, self.asked)
        (folder / "a.bin").write_bytes(CONTENT)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def url(self, fault: str, name: str = "a.bin") -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/{fault}/{name}"

    def entry(
        self,
        *faults: str,
        name: str = "a.bin",
        unpack: tuple[str, ...] = (),
        keep: tuple[str, ...] = (),
    ) -> CatalogueEntry:
        data = (self.folder / name).read_bytes()
        urls = tuple(self.url(fault, name) for fault in faults)
        digest = hashlib.sha256(data).hexdigest()
        return CatalogueEntry("one", "", (DatasetFile(urls, digest, len(data), unpack, keep),))

    def fetch(self, entry: CatalogueEntry, *mirrors: str, **env: str) -> fetch.Fetched:
        return fetch.fetch(entry, mirrors, env, self.say)


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    monkeypatch.setenv("RUNNER_SCRATCH", str(tmp_path / "scratch"))
    (tmp_path / "www").mkdir()
    web = Web(tmp_path / "www")
    yield web
    web.server.shutdown()
    web.server.server_close()


def leftovers(tmp_path: Path) -> list[str]:
    return sorted(p.name for p in (tmp_path / "scratch" / "data").rglob("*") if p.is_file())


@pytest.mark.parametrize("fault", ["ok", "plain", "redirect", "slow", "cut", "changed"])
def test_what_can_be_had_is_had_whole(web: Web, fault: str) -> None:
    done = web.fetch(web.entry(fault))
    assert (done.path / "a.bin").read_bytes() == CONTENT
    assert (done.files, done.size, done.fresh) == (1, len(CONTENT), True)
    assert manifest.read(done.path) == manifest.of_folder(done.path, "one", web.say)


def test_a_cut_download_goes_on_where_it_stopped(web: Web) -> None:
    web.fetch(web.entry("cut"))
    assert web.asked[0] == "cut a.bin"
    starts = [int(asked.rpartition("=")[2][:-1]) for asked in web.asked[1:]]
    assert starts == sorted(set(starts))
    assert starts[0] == -(-len(CONTENT) // 3)


@pytest.mark.parametrize(
    ("part", "asked"),
    [
        (CONTENT[:1000], ["ok a.bin bytes=1000-"]),
        (b"x" * 1000, ["ok a.bin bytes=1000-", "ok a.bin"]),
    ],
)
def test_the_next_run_goes_on_where_the_part_fits(
    web: Web, tmp_path: Path, part: bytes, asked: list[str]
) -> None:
    file = tmp_path / "scratch" / "data" / ".fetch" / "one" / "files" / "a.bin.part"
    entry = web.entry("ok")
    file.parent.mkdir(parents=True)
    file.write_bytes(part)
    mark = f'{{"url": "{digest.of_text(entry.files[0].urls[0])}", "mark": "\\"one\\""}}'
    file.with_suffix(".from").write_text(mark)
    done = web.fetch(entry)
    assert (done.path / "a.bin").read_bytes() == CONTENT
    assert web.asked == asked


@pytest.mark.parametrize(
    ("fault", "id"),
    [
        ("missing", "dataset-not-served"),
        ("error", "dataset-not-served"),
        ("wrong", "dataset-digest"),
        ("other", "download-other-length"),
    ],
)
def test_what_cannot_be_had_leaves_nothing(web: Web, tmp_path: Path, fault: str, id: str) -> None:
    with sentences.raises(id):
        web.fetch(web.entry(fault))
    assert leftovers(tmp_path) == ["one.lock"]


def test_no_address_has_it(web: Web) -> None:
    with sentences.raises("dataset-at-no-address", "--mirror URL, of a folder that has it"):
        web.fetch(web.entry("missing", "wrong"))


def test_a_mirror_takes_the_place_of_the_addresses(web: Web) -> None:
    web.fetch(web.entry("error"), web.url("ok", ""))
    assert web.asked == ["ok a.bin"]


def test_a_server_that_is_not_there(web: Web) -> None:
    web.server.shutdown()
    web.server.server_close()
    with sentences.raises("host-silent"):
        web.fetch(web.entry("ok"))


def test_not_by_each_rank(web: Web) -> None:
    with sentences.raises("fetch-in-ranks", "runner data fetch one, once, on the login node"):
        web.fetch(web.entry("ok"), SLURM_PROCID="1", SLURM_STEP_NUM_TASKS="4")
    assert web.fetch(web.entry("ok"), SLURM_PROCID="0", SLURM_NTASKS="4").fresh


def test_no_room(web: Web) -> None:
    entry = web.entry("ok")
    huge = CatalogueEntry("one", "", (DatasetFile(entry.files[0].urls, "0" * 64, 10**15),))
    with sentences.raises("disk-space", disk_space.FREE_SPACE):
        web.fetch(huge)
    assert web.asked == []


def tar(path: Path, *members: tuple[str, bytes | None, dict[str, Any]]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, data, facts in members:
            info = tarfile.TarInfo(name)
            info.size = len(data or b"")
            for key, value in facts.items():
                setattr(info, key, value)
            archive.addfile(info, io.BytesIO(data) if data is not None else None)
    return path


def test_an_archive_is_unpacked(web: Web) -> None:
    tar(web.folder / "a.tar.gz", ("in/x", b"hello", {"mode": 0o4777}), ("in/y/z", b"you", {}))
    done = web.fetch(web.entry("cut", name="a.tar.gz", unpack=(".",)))
    assert (done.path / "in" / "x").read_bytes() == b"hello"
    assert (done.path / "in" / "x").stat().st_mode & 0o7777 == 0o644
    known = manifest.read(done.path)
    assert known is not None
    assert sorted(known.files) == ["in/x", "in/y/z"]


def test_one_file_lies_in_several_places(web: Web) -> None:
    tar(web.folder / "a.tar.gz", ("in/x", b"hello", {}))
    keep, unpack = ("cache/a.archive", "a.tar.gz"), (".", "cache")
    done = web.fetch(web.entry("ok", name="a.tar.gz", unpack=unpack, keep=keep))
    known = manifest.read(done.path)
    assert known is not None
    assert sorted(known.files) == ["a.tar.gz", "cache/a.archive", "cache/in/x", "in/x"]
    assert (done.path / "cache" / "in" / "x").samefile(done.path / "in" / "x")
    assert manifest.read(done.path) == manifest.of_folder(done.path, "one", web.say)


def test_a_manifest_of_others_is_none(tmp_path: Path) -> None:
    (tmp_path / manifest.FILE).write_text('{"name": "x"}')
    assert manifest.read(tmp_path) is None
    (tmp_path / manifest.FILE).write_text('{"dataset": "x", "files": {"../y": {"size": 1}}}')
    with sentences.raises("manifest-malformed"):
        manifest.read(tmp_path)


def test_a_gz_that_is_no_archive_is_one_file(web: Web) -> None:
    (web.folder / "x.gz").write_bytes(gzip.compress(CONTENT))
    done = web.fetch(web.entry("ok", name="x.gz", unpack=("raw/deep",)))
    assert (done.path / "raw" / "deep" / "x").read_bytes() == CONTENT
    assert not (done.path / "x.gz").exists()


@pytest.mark.parametrize("cut", [gzip.compress(CONTENT)[:-40], b"no gzip"])
def test_a_damaged_gz(web: Web, tmp_path: Path, cut: bytes) -> None:
    (web.folder / "x.gz").write_bytes(cut)
    with sentences.raises("gzip-incomplete"):
        web.fetch(web.entry("ok", name="x.gz", unpack=(".",)))
    assert not (tmp_path / "scratch" / "data" / "one").exists()


@pytest.mark.parametrize("place", ["../x", "/x", "a/../../x", ""])
@pytest.mark.parametrize("key", ["keep", "unpack"])
def test_a_place_outside_of_the_dataset_is_refused(tmp_path: Path, key: str, place: str) -> None:
    (tmp_path / "runner").mkdir()
    text = f'[datasets.x]\nurls = ["https://a/b"]\nsha256 = "{"0" * 64}"\n{key} = ["{place}"]\n'
    (tmp_path / "runner" / "runner.toml").write_text(text)
    with sentences.raises("table-invalid"):
        dataset_catalogue.find("x", {"XDG_CONFIG_HOME": str(tmp_path)})


@pytest.mark.parametrize(
    ("name", "facts", "id"),
    [
        ("../out", {}, "archive-outside"),
        ("/etc/out", {}, "archive-outside"),
        ("a/../../out", {}, "archive-outside"),
        ("a", {"type": tarfile.SYMTYPE, "linkname": "/etc"}, "archive-special-file"),
        ("a", {"type": tarfile.LNKTYPE, "linkname": "../x"}, "archive-special-file"),
        ("a", {"type": tarfile.CHRTYPE}, "archive-special-file"),
        ("a", {"type": tarfile.FIFOTYPE}, "archive-special-file"),
    ],
)
def test_a_hostile_archive_writes_nothing(
    web: Web, tmp_path: Path, name: str, facts: dict[str, Any], id: str
) -> None:
    hostile = (name, None if facts else b"", facts)
    tar(web.folder / "a.tar.gz", ("fine", b"x", {}), hostile)
    with sentences.raises(id):
        web.fetch(web.entry("ok", name="a.tar.gz", unpack=(".",)))
    assert not (tmp_path / "scratch" / "data" / "one").exists()
    assert "fine" not in leftovers(tmp_path)
    assert not (tmp_path / "scratch" / "out").exists()


def test_a_damaged_archive(tmp_path: Path) -> None:
    whole = tar(tmp_path / "a.tar.gz", ("x", os.urandom(100_000), {})).read_bytes()
    (tmp_path / "b.tar.gz").write_bytes(whole[:50_000])
    with sentences.raises("tar-damaged"):
        fetch.unpack(tmp_path / "b.tar.gz", tmp_path)


def test_the_shipped_catalogue() -> None:
    known = dataset_catalogue.shipped()
    assert [source.name for source in known["mnist"].files] == [
        "train-images-idx3-ubyte.gz",
        "train-labels-idx1-ubyte.gz",
        "t10k-images-idx3-ubyte.gz",
        "t10k-labels-idx1-ubyte.gz",
    ]
    sources = [source for entry in known.values() for source in entry.files]
    assert all(len(source.urls) > 1 and source.size for source in sources)
    with sentences.raises("dataset-unknown"):
        dataset_catalogue.find("mnits", {})


GOOD = f'urls = ["http://h/a.tar"]\nsha256 = "{"0" * 64}"\n'


@pytest.mark.parametrize(
    ("text", "id"),
    [
        (GOOD + "sise = 3\n", "table-invalid"),
        ('urls = ["http://h/a.tar"]\n', "table-invalid"),
        (GOOD.replace("0" * 64, "abc"), "table-invalid"),
        (GOOD + "size = 'x'\n", "table-invalid"),
        (GOOD.replace("a.tar", ""), "dataset-entry-address"),
        ("files = []\n", "dataset-entry-keys"),
    ],
)
def test_a_faulty_entry_of_the_users_own(here: Path, text: str, id: str) -> None:
    (here / "runner.toml").write_text(f"[datasets.mine]\n{GOOD}")
    assert dataset_catalogue.find("mine", {"XDG_CONFIG_HOME": "none"}).files[0].name == "a.tar"
    (here / "runner.toml").write_text(f"[datasets.mine]\n{text}")
    with sentences.raises(id):
        dataset_catalogue.find("mine", {"XDG_CONFIG_HOME": "none"})


def archive(path: Path, *members: tuple[str, bytes], **facts: Any) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, data in members:
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            for key, value in facts.items():
                setattr(entry, key, value)
            tar.addfile(entry, io.BytesIO(data))
    return path


@pytest.mark.parametrize(
    "names", [("a", "a"), ("a", "./a"), ("a", "a/b"), ("a/b", "a"), ("a/b/c", "a/b"), (".",)]
)
def test_a_dataset_with_a_name_twice_is_refused(tmp_path: Path, names: tuple[str, ...]) -> None:
    there = archive(tmp_path / "a.tar", *((name, b"x") for name in names))
    (tmp_path / "out").mkdir()
    with sentences.raises("archive-name-twice"):
        fetch.unpack(there, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
