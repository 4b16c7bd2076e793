"""The benchmark of how the image reaches the nodes: its table, its nodes, its server."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from tests.bench import distribution
from tests.bench.distribution import WAYS, Shape
from tests.bench.login import slow


def test_each_way_is_compared_within_its_shape() -> None:
    shapes = [Shape(1), Shape(2, 4)]
    found = {
        f"{way}, {shape}": [{"ready": seconds * shape.nodes, "trainer": 1.0, "bytes": 2e6}] * 2
        for shape in shapes
        for way, seconds in zip(WAYS, (4.0, 3.0, 6.0, 10.0))
    }
    table = distribution.rows(found, shapes)
    assert [row.what for row in table] == list(found)
    assert [row.ratio for row in table] == [None, 0.75, 1.5, 2.5] * 2
    assert table[5].to == "in place, 2 nodes, 4 ranks"
    assert distribution.notes(found)[0].startswith("MB that the server sent: in place, 1 node 2, ")
    assert distribution.names(Shape(2)) == ("n1", "n2")


def test_all_mounts_of_one_server_share_its_speed(tmp_path: Path) -> None:
    queue = str(tmp_path / "queue")
    slow.begin(queue)
    began = time.monotonic()
    asking = [threading.Thread(target=slow.Queue(queue, 1e6).wait, args=(10**5,)) for _ in "abc"]
    for one in asking:
        one.start()
    for one in asking:
        one.join()
    assert time.monotonic() - began > 0.29, "0.3 MB at 1 MB/s, whoever asks"
    assert slow.sent(queue) == 3 * 10**5
