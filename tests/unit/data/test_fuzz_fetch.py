"""Archives of any bytes are unpacked into their folder, or refused."""

from __future__ import annotations

import io
import shutil
import tarfile
from contextlib import suppress
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runners.core.errors import RunnerError
from runners.data import fetch

in_a_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def headers() -> st.SearchStrategy[bytes]:
    """Tar files: whole ones of odd members, then some bytes changed."""
    kinds = [tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE]
    name = st.sampled_from(
        ["a", "a/b", "./a", "../a", "/a", "", "index.json", "manifest.json", "ä"]
    )
    times = st.sampled_from([0, 1.5, -5, 2**40, 2**70])
    member = st.tuples(name, st.sampled_from(kinds), st.binary(max_size=40), name, times)
    change = st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 255)), max_size=4)
    forms = st.sampled_from([tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
    return st.builds(archive, st.lists(member, max_size=4), change, forms)


def archive(
    members: list[tuple[str, bytes, bytes, str, float]], changes: list[tuple[int, int]], form: int
) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as tar:
        for name, kind, data, link, time in members:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname, entry.mtime = kind, link, time
            entry.size = len(data) if kind == tarfile.REGTYPE else 0
            tar.addfile(entry, io.BytesIO(data))
    raw = bytearray(buffer.getvalue())
    for position, value in changes:
        raw[position % len(raw)] = value
    return bytes(raw)


@in_a_folder
@given(st.one_of(headers(), st.binary(max_size=600)))
def test_archives_of_any_bytes_stay_in_their_folder(tmp_path: Path, content: bytes) -> None:
    for left in tmp_path.iterdir():
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    (tmp_path / "out").mkdir()
    path = tmp_path / "a.tar"
    path.write_bytes(content)
    with suppress(RunnerError):
        fetch.unpack(path, tmp_path / "out")
    assert {entry.name for entry in tmp_path.iterdir()} <= {"out", "a.tar"}
    assert not [entry for entry in tmp_path.rglob("*") if entry.is_symlink()]
