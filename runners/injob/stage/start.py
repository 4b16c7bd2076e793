"""The commands of a node, each with the job's folder there and what is in it.

hold FOLDER [ENTRY FILE OFFSET RUNTIME]
mounted FOLDER ENTRY
room FOLDER ENTRY SOURCE
copy FOLDER ENTRY SOURCE
verify FOLDER ENTRY SHA256
unpack FOLDER ENTRY OFFSET NEW_ENTRY
"""

import os
import time
from typing import Callable

from . import copying, image, mount, place
from .failure import DATA, EXIT_NOT_STAGED, IMAGE, NotStaged, kind, record, say


def main(argv: "list[str]") -> "int":
    """Do one of them; return 0, or 92 when it cannot be had here, or 81 when it may not."""
    command, folder, *rest = argv
    what = kind(rest[0]) if rest else DATA
    try:
        COMMANDS[command](folder, *rest)
    except NotStaged as error:
        record(what, str(error), error.code)
        return error.code
    except OSError as error:
        record(what, str(error), EXIT_NOT_STAGED)
        return EXIT_NOT_STAGED
    return 0


def _room(folder: "str", entry: "str", source: "str") -> None:
    place.wait_for(folder)
    copying.room(os.path.join(folder, entry), [os.stat(source).st_size])


def _mounted(folder: "str", entry: "str") -> None:
    place.wait_for(folder)
    mount.wait_for(folder, entry)


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
    "mounted": _mounted,
    "room": _room,
    "copy": _copy,
    "verify": image.verify,
    "unpack": _unpack,
}
