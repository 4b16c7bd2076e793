"""Reads every file of a folder, in an order of its own for each epoch, as training does.

    python3 read_all.py FOLDER EPOCHS READERS

Prints {"files", "bytes", "list", "epochs"} as JSON, the last two in seconds. It runs in the image.
"""

import json
import os
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor


def names(folder: str) -> "list[str]":
    """Return the paths of all files."""
    return [os.path.join(path, name) for path, _, files in os.walk(folder) for name in files]


def read(path: str) -> int:
    """Read a file; return its size."""
    with open(path, "rb") as file:
        return len(file.read())


def epoch(paths: "list[str]", readers: int) -> "tuple[int, float]":
    """Read all once; return bytes and seconds."""
    began = time.perf_counter()
    with ThreadPoolExecutor(readers) as pool:
        size = sum(pool.map(read, paths))
    return size, time.perf_counter() - began


def main() -> None:
    """Command line."""
    folder, epochs, readers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    began = time.perf_counter()
    paths = sorted(names(folder))
    listed = time.perf_counter() - began
    took, size = [], 0
    for number in range(epochs):
        random.Random(number).shuffle(paths)
        size, seconds = epoch(paths, readers)
        took.append(seconds)
    print(json.dumps({"files": len(paths), "bytes": size, "list": listed, "epochs": took}))


if __name__ == "__main__":
    main()
