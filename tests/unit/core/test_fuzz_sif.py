"""An image of somebody else may hold any bytes: it is read or refused, and never at length."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from runners.core import sif
from runners.core.errors import RunnerError
from runners.images.facts import image_labels

from .. import sentences
from .test_sif import make_sif

in_a_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
numbers = st.integers(-(2**63), 2**63 - 1) | st.integers(-8, 8192)
types = st.sampled_from([sif.GENERIC_JSON, sif.PARTITION, sif.SIGNATURE, 0])
END = sif.HEADER.size + 2 * sif.DESCRIPTOR.size


class Counting(io.BytesIO):
    """Counts the bytes that are asked for, as a remote image would have to send them."""

    asked = 0

    def read(self, size: int | None = -1, /) -> bytes:
        assert size is not None
        assert size >= 0, "all of it"
        self.asked += size
        return super().read(size)


def header(total: int = 2, table: int = sif.HEADER.size) -> bytes:
    return sif.HEADER.pack(b"", sif.MAGIC, b"", b"", b"", 0, 0, 0, total, table, 0, END, 0)


def entry(kind: int, offset: int, size: int) -> bytes:
    name = sif.METADATA.encode()
    return sif.DESCRIPTOR.pack(kind, True, 1, 1, 0, offset, size, size, 0, 0, 0, 0, name, b"")


PARTITION = entry(sif.PARTITION, END, 4)


@given(numbers, numbers, types, numbers, numbers, st.binary(max_size=64))
@example(2, sif.HEADER.size, sif.GENERIC_JSON, END, -1, b"{}")
@example(2, sif.HEADER.size, sif.GENERIC_JSON, -1, 1, b"{}")
@example(2, -1, sif.GENERIC_JSON, END, 2, b"{}")
@example(2**62, sif.HEADER.size, sif.PARTITION, END, 2, b"{}")
@example(2, sif.HEADER.size, sif.GENERIC_JSON, END, 2, b"[]")
def test_a_table(total: int, table: int, kind: int, offset: int, size: int, rest: bytes) -> None:
    file = Counting(header(total, table) + entry(kind, offset, size) + PARTITION + rest)
    try:
        found = sif.labels_in(file)
    except sif.SifError:
        found = None
    assert found is None or all(isinstance(text, str) for text in found.values())
    assert file.asked <= sif.HEADER.size + sif.MOST_OBJECTS * sif.DESCRIPTOR.size + len(rest)


documents: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["data", "attributes", "labels"]), inner)
    ),
    max_leaves=8,
)


@given(st.binary(max_size=64) | documents.map(lambda value: json.dumps(value).encode()))
@example(b"[" * 100_000)
def test_labels(metadata: bytes) -> None:
    blob = header() + entry(sif.GENERIC_JSON, END, len(metadata)) + PARTITION + metadata + b"rest"
    try:
        found = sif.labels_in(io.BytesIO(blob)) or {}
    except sif.SifError:
        return
    assert all(isinstance(text, str) for text in found.values())


def test_labels_that_claim_gigabytes_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.sif"
    path.write_bytes(header() + entry(sif.GENERIC_JSON, END, 1 << 40) + PARTITION)
    with path.open("r+b") as file:
        file.truncate(END + (1 << 40))  # a file with a hole: it takes no room
    with sentences.raises("image-unusable"):
        image_labels.read(path)


@in_a_folder
@given(st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=4))
def test_an_image_with_other_bytes(tmp_path: Path, changes: list[tuple[int, int]]) -> None:
    path = make_sif(tmp_path / "a.sif", {"horovod.version": "0.28.1"})
    data = bytearray(path.read_bytes())
    for place, value in changes:
        data[place] = value
    path.write_bytes(data)
    try:
        image_labels.read(path)
    except (RunnerError, sif.SifError):
        return
