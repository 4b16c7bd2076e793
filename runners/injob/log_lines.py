"""Lines of a job's log: those that it writes and `runner` looks for, and lines without colours."""

import re

START = "runner: start "  # and its number: a job that came back begins anew here
FAILED = "runner: rank {rank} failed: "  # and how; the record has the same with more
NO_MODULE = "runner: no module "  # and its name: the job's script could not load it


COLOUR = re.compile(r"\x1b\[[0-9;]*m")  # ECMA-48, Select Graphic Rendition


def plain(text: "str") -> "str":
    """Return text without the colours that programs write, some of them into files too."""
    return COLOUR.sub("", text)
