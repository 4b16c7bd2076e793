"""CIFAR-10 (https://www.cs.toronto.edu/~kriz/cifar.html): six files, binary or for Python.

A record of the binary form is a label of one byte and a picture.
"""

from __future__ import annotations

from . import FormatError

SIZE, CLASSES = 32, 10
PIXELS = 3 * SIZE * SIZE  # bytes of a picture: all red ones, all green ones, all blue ones
RECORD = 1 + PIXELS
TRAINING = [f"data_batch_{number}" for number in range(1, 6)]
TEST = ["test_batch"]
#: The folders of both forms, as they come out of the archives, and the end of their files' names.
BINARY, PYTHON = "cifar-10-batches-bin", "cifar-10-batches-py"
FORMS = {BINARY: ".bin", PYTHON: ""}


def count_records(data: bytes) -> int:
    """Return the number of records of a binary file; raise FormatError where there is no whole."""
    count, rest = divmod(len(data), RECORD)
    if rest or not count:
        raise FormatError(f"its {len(data)} bytes are no whole number of records of {RECORD}")
    return count
