"""Pictures that threads read ahead for TensorFlow: in order, from where the training is."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from recipes.common import Indices, Loop, Position, Shards, UserError
from recipes.pictures import Labels, Pixels, synthetic
from recipes.tf_pictures import AHEAD, Feed, stream

KEYS = [(1, np.array([number, number + 100])) for number in range(20)]


class Counting:
    """Pictures whose labels are their indices; picture `bad` cannot be read."""

    def __init__(self, bad: int = -1) -> None:
        self.bad, self.asked, self.readers = bad, 0, set[int]()

    def __len__(self) -> int:
        return 1000

    def read(self, epoch: int, part: Indices) -> tuple[Pixels, Labels]:
        self.asked += 1
        self.readers.add(threading.get_ident())
        if self.bad in part:
            raise UserError(f"cannot read the picture {self.bad}")
        return np.zeros((len(part), 2, 2, 3), np.uint8), part


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_batches_come_in_order(workers: int) -> None:
    pictures = Counting()
    found = [labels.tolist() for _, labels in stream(pictures, KEYS, workers)]
    assert found == [part.tolist() for _, part in KEYS]
    assert pictures.asked == len(KEYS)
    assert (threading.get_ident() in pictures.readers) == (workers == 0)


def test_no_more_is_read_ahead_than_fits() -> None:
    pictures = Counting()
    ahead = stream(pictures, KEYS, 2)
    next(ahead)
    assert pictures.asked <= AHEAD * 2
    ahead.close()  # type: ignore[attr-defined]  # a generator


@pytest.mark.parametrize("workers", [0, 2])
def test_a_bad_picture_is_told_in_its_turn(workers: int) -> None:
    ahead = stream(Counting(bad=105), KEYS, workers)
    assert [next(ahead)[1].tolist() for _ in range(5)] == [part.tolist() for _, part in KEYS[:5]]
    with pytest.raises(UserError, match="cannot read the picture 105"):
        next(ahead)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_feed_goes_on_within_an_epoch_and_into_the_next(workers: int) -> None:
    data = synthetic(8, 100, 100, 1)
    shards = Shards(100, 1, 2, seed=3, batch_size=10, drop_last=True)
    loop = Loop(shards, Position(step=3, epoch=1, taken=60), epochs=2, max_steps=None)
    feed = Feed(data, loop, 2, workers)
    parts = [batch.parts[0] for epoch, taken in ((1, 60), (2, 0))
             for batch in shards.batches(epoch, taken)]  # fmt: skip
    assert len(parts) == 2 + 5
    for part in parts:
        assert feed[part][1].tolist() == part.tolist()


def test_a_blank_has_the_form_of_a_batch() -> None:
    data = synthetic(8, 100, 100, 1)
    shards = Shards(100, 0, 1, seed=3, batch_size=10)
    pixels, labels = Feed(data, Loop(shards, Position(), 1, None), 1, 0).blank()
    assert (pixels.shape, labels.shape) == ((1, 8, 8, 3), (1,))
    assert pixels.dtype == np.uint8
