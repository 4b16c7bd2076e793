"""The commands of a node, each about one entry of the job's folder there.

hold image|data [ENTRY FILE OFFSET RUNTIME]
mounted ENTRY
room ENTRY SOURCE
copy ENTRY SOURCE
verify ENTRY SHA256
unpack ENTRY OFFSET NEW_ENTRY

The first line of the input is the folder. Arguments can be read by all users of a node, and who
knew the name early could make a folder of his there.
"""

import os
import time
from typing import Callable

from . import copying, image, place
from .node import EXIT_NOT_STAGED, IMAGE, NotStaged, kind, record, say


def main(argv: "list[str]") -> "int":
    """Do one of them; return 0, or 92 when it cannot be had here, or 81 when it may not."""
    command, *rest = argv
    what = rest.pop(0) if command == "hold" else kind(rest[0])
    folder = _line()
    try:
        if command != "hold":
            place.wait_for(folder)
        COMMANDS[command](folder, *rest)
    except NotStaged as error:
        record(what, str(error), error.code)
        return error.code
    except OSError as error:
        record(what, str(error), EXIT_NOT_STAGED)
        return EXIT_NOT_STAGED
    return 0


def _line() -> "str":
    """Return the first line of the input, and leave the rest unread."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            break
        line += byte
    return os.fsdecode(line.rstrip(b"\n"))


def _room(folder: "str", entry: "str", source: "str") -> None:
    copying.room(os.path.join(folder, entry), [os.stat(source).st_size])


def _copy(folder: "str", entry: "str", source: "str") -> None:
    began = time.time()
    files, size, sent = copying.copy(folder, entry, source)
    name = "" if kind(entry) == IMAGE else f"{entry}, "
    how = f"sent, {copying.shown(size)}" if sent else _told(files, size, began)
    say(kind(entry), name + how)


def _unpack(folder: "str", entry: "str", offset: "str", target: "str") -> None:
    began = time.time()
    packed, unpacked = (os.path.join(folder, name) for name in (entry, target))
    files, size = image.unpack(packed, offset, unpacked)
    say(kind(entry), "unpacked, " + _told(files, size, began))


def _told(files: "int", size: "int", began: "float") -> "str":
    many = "" if files == 1 else f" in {files} files"
    return f"{copying.shown(size)}{many}, {time.time() - began:.1f} s"


COMMANDS: "dict[str, Callable[..., None]]" = {
    "hold": place.hold,
    "mounted": image.wait_for_mount,
    "room": _room,
    "copy": _copy,
    "verify": image.verify,
    "unpack": _unpack,
}
