"""Record a command on the test cluster as an animated picture of a terminal (`make docs-demo`).

What is typed is what runs, in an empty folder on the cluster's scratch; nothing of the output is
edited but the waits, which are shortened.
"""

from __future__ import annotations

import codecs
import fcntl
import json
import os
import pty
import shlex
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

from tests.cluster.state import CHECKOUT, USER

COLUMNS, ROWS = 92, 31
FOLDER = f"/scratch/{USER}/demo"
TEMPLATE = CHECKOUT / "docs" / "demo" / "template.svg"
# Words appear one by one, as if typed; then the shell runs them.
SESSION = """
rm -rf "$1" && mkdir "$1" && cd "$1" && shift
printf '\\e[1;32m$\\e[0m'
for word; do
  [ "$word" = --controller ] && printf ' \\\\\\n   '
  sleep 0.12; printf ' %s' "$word"
done
sleep 0.6; echo
"$@"
printf '\\e[1;32m$\\e[0m '; sleep 0.2
"""
MIN_MS, MAX_MS, LAST_MS = 120, 1500, 6000


def record(argv: list[str]) -> Iterator[tuple[float, str]]:
    """Run a command on a terminal of its own; yield when each piece of text appeared, and it.

    Seconds count from the start. Raises SystemExit with the command's exit code when it fails.
    """
    child, master = pty.fork()
    if child == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        os.execvp(argv[0], argv)
    decoder, began = codecs.getincrementaldecoder("utf-8")(), time.monotonic()
    while raw := _read(master):
        yield time.monotonic() - began, decoder.decode(raw)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        raise SystemExit(code)


def _read(master: int) -> bytes:
    try:
        return os.read(master, 65536)
    except OSError:  # the last process of the terminal has ended
        return b""


def write_cast(path: Path, events: list[tuple[float, str]]) -> None:
    """Write a recording in asciinema's format, version 2."""
    header = {"version": 2, "width": COLUMNS, "height": ROWS}
    lines = [header, *([seconds, "o", text] for seconds, text in events)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def refuse_names(text: str) -> None:
    """End when a recording tells where it was made: host names, folders."""
    ours = {str(CHECKOUT), str(Path.home()), socket.gethostname()}
    if found := sorted(name for name in ours if name in text):
        raise SystemExit(f"error: the recording shows names of this machine: {', '.join(found)}")


def main() -> None:
    """Record the command in the arguments after the picture's name."""
    picture, *command = sys.argv[1:]
    inside = ["env", "TERM=xterm-256color", "bash", "-ec", SESSION, "bash", FOLDER, *command]
    events = list(record([sys.executable, "-m", "tests.cluster", "exec", "--", *inside]))
    refuse_names("".join(text for _, text in events))
    cast = CHECKOUT / "build" / "demo.cast"
    cast.parent.mkdir(exist_ok=True)
    write_cast(cast, events)
    times = ["-m", str(MIN_MS), "-M", str(MAX_MS), "-D", str(LAST_MS)]
    render = ["termtosvg", "render", str(cast), picture, "-t", str(TEMPLATE), *times]
    print(shlex.join(render))
    subprocess.run(render, check=True)


if __name__ == "__main__":
    main()
