"""What is asked of a made-up dataset."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Asked:
    """What to make. `samples` are to train on; a fifth as many, at least 1, are to test with.

    `size` is the edge of an image of the ImageNet kind in pixels, `vocabulary` the number of
    different tokens.
    """

    samples: int
    seed: int = 0
    classes: int = 10
    size: int = 64
    vocabulary: int = 256

    @property
    def parts(self) -> tuple[int, int]:
        """The numbers of samples to train on and to test with."""
        return self.samples, max(1, self.samples // 5)
