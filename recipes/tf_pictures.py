"""Pictures on their way to TensorFlow, read ahead by threads (Pillow decodes without the GIL)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from recipes.common import Indices, Loop
from recipes.pictures import Labels, Pictures, PictureSet, Pixels

Key = tuple[int, Indices]  # epoch, and which pictures
Read = tuple[Pixels, Labels]
AHEAD = 2  # batches that wait for each thread


def stream(pictures: Pictures, keys: Iterable[Key], workers: int) -> Iterator[Read]:
    """Yield the batches of `keys`; `workers` threads read ahead, with 0 this one reads.

    Raises `UserError` for a picture that cannot be read.
    """
    if not workers:
        yield from (pictures.read(*key) for key in keys)
        return
    pool, coming = ThreadPoolExecutor(workers), deque[Future[Read]]()
    try:
        for key in keys:
            coming.append(pool.submit(pictures.read, *key))
            if len(coming) == AHEAD * workers:
                yield coming.popleft().result()
        while coming:
            yield coming.popleft().result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


class Feed:
    """The training pictures of a run from where it is, to be asked for part by part."""

    def __init__(self, data: PictureSet, loop: Loop, epochs: int, workers: int) -> None:
        self.size = data.size
        self.ahead = stream(data.train, loop.parts(epochs), workers)

    def __getitem__(self, part: Indices) -> Read:
        """Return what comes next, which is `part`. Raises `UserError`, and is at its end then."""
        return next(self.ahead)

    def blank(self) -> Read:
        """Return one black picture, for a step in which nothing could be read."""
        return np.zeros((1, self.size, self.size, 3), np.uint8), np.zeros(1, np.int64)
