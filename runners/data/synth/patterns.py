"""Images as bytes: a pattern for each class, and noise for each image, added in one step.

Bytes of a pattern are at most 191, those of noise at most 63, so the sum of two long numbers adds
byte by byte, without a carry: hundreds of times as quick as a loop over pixels.
"""

from __future__ import annotations

import random

BRIGHTEST, NOISE = 191, 63


class Images:
    """Makes images of `length` bytes in `classes` classes, the same ones for the same seed."""

    def __init__(self, seed: int, classes: int, length: int) -> None:
        self.random, self.length = random.Random(seed), length
        self.patterns = [self._pattern() for _ in range(classes)]
        self.mask = int.from_bytes(bytes([NOISE]) * length, "little")

    def _pattern(self) -> int:
        """Runs of 16 bytes of one brightness, so that neighbours are alike as in pictures."""
        runs = [self.random.randint(0, BRIGHTEST) for _ in range(self.length // 16 + 1)]
        return int.from_bytes(b"".join(bytes([run]) * 16 for run in runs)[: self.length], "little")

    def image(self, label: int) -> bytes:
        """Return one more image of a class."""
        noise = self.random.getrandbits(8 * self.length) & self.mask
        return (self.patterns[label] + noise).to_bytes(self.length, "little")

    def label(self, number: int) -> int:
        """Return the class of the image of this number: the first ones have each class once."""
        classes = len(self.patterns)
        return number % classes if number < classes else self.random.randrange(classes)
