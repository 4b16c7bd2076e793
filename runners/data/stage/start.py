"""The commands of a node: `hold FOLDER`, `room FOLDER SOURCE`, `copy FOLDER ENTRY SOURCE`."""

import os
import sys
import time

from . import copying, place
from .failure import EXIT_NOT_STAGED, NotStaged, host, record


def main(argv: "list[str]") -> "int":
    """Do one of them; return 0, or 92 when the data cannot be had here."""
    command, folder, rest = argv[0], argv[1], argv[2:]
    try:
        if command == "hold":
            place.hold(folder)
        elif command == "room":
            place.wait_for(folder)
            copying.room(folder, [os.stat(rest[0]).st_size])
        else:
            _copy(folder, *rest)
    except (NotStaged, OSError) as error:
        record(str(error))
        return EXIT_NOT_STAGED
    return 0


def _copy(folder: "str", entry: "str", source: "str") -> None:
    began = time.time()
    files, size = copying.copy(folder, entry, source)
    what = copying.shown(size) + ("" if files == 1 else f" in {files} files")
    took = time.time() - began
    print(f"runner: data on {host()}: {entry}, {what}, {took:.1f} s", file=sys.stderr, flush=True)
