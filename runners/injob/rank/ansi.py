"""Text without the colours that programs write, some of them into files too.

Apptainer does so where TERM is not set, as in jobs that cron or a web portal submits; some loggers
do whoever reads.
"""

from __future__ import annotations

import re

COLOUR = re.compile(r"\x1b\[[0-9;]*m")  # ECMA-48, Select Graphic Rendition


def plain(text: str) -> str:
    return COLOUR.sub("", text)
