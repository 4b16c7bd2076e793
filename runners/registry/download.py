"""Downloads into a file, with progress and digest; an interrupted download is resumed.

RFC 9110: `Range` with `If-Range` gives 206 and the rest while the file is what it was, 200 and all
of it otherwise, or where the server has no ranges; 416 where nothing is left.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from functools import partial
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any, BinaryIO, Callable
from urllib.error import HTTPError

from ..contract.log_text import human_size
from ..core import digest as digests
from ..core import disk_space
from ..core.errors import NotVerified, Refused, SystemFault
from ..core.files import read_json
from ..core.progress import Progress
from . import http

CHUNK = 1 << 20
WAITS = (0.0, 0.5, 1.0, 3.0)  # seconds before each try to resume; from the first when bytes came
RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")
# Returns the answer with a file from a byte on, or with all of it; raises a RunnerError.
Ask = Callable[[int], HTTPResponse]


def from_web(url: str, name: str, part: Path, size: int | None, progress: Progress) -> str:
    """Have the file of `url` in `part`; go on with what an earlier try has left there.

    `size` in bytes is what it must have, None where nobody knows. Returns and raises as `save`
    does; also HTTPError, and Refused where another size is announced. Then the part stays for next
    time.
    """
    again = "run it again; it resumes from there"
    return save(partial(_ask, url, name, part, size), name, part, size, progress, again)


def save(
    ask: Ask, name: str, part: Path, size: int | None, progress: Progress, again: str = "again"
) -> str:
    """Write what `ask` gives into `part`; return its digest, "sha256:...".

    `name` is what people call it. A lost connection is resumed as long as bytes come. Raises
    SystemFault when none do, with `again` as the next command, and when the disk is full;
    NotVerified for more than `size` bytes, of which none stay.
    """
    digest, came, failures, total = hashlib.sha256(), False, 0, size
    _feed(digest, part)
    while True:
        before = _size(part)
        try:
            answer = ask(before)
        except SystemFault as error:
            if not came:
                raise
            why = error.what
        else:
            with answer:
                start = _start(answer, before)
                if not start:
                    digest = hashlib.sha256()
                total = size if answer.length is None else start + answer.length
                if not came:
                    progress.begin(f"downloading {name}", total)
                disk_space.check(part.parent, max(0, (total or 0) - start), name)
                why = _write(answer, part, start, digest, progress, size)
        if size is not None and _size(part) > size:
            forget(part)
            raise NotVerified(
                f"{name} is another file: more than {size} bytes; removed", id="download-too-long"
            )
        done = _size(part)
        if not why and total in (None, done):
            return f"sha256:{digest.hexdigest()}"
        came, failures = came or done > before, 0 if done > before else failures + 1
        of = f" of {human_size(total)}" if total is not None else ""
        stopped = f"{name} stopped after {human_size(done)}{of}"
        if failures == len(WAITS):
            raise SystemFault(stopped, why or "the connection ended", again, id="download-stopped")
        progress.say(f"{stopped}; going on from there")
        time.sleep(WAITS[failures])


def copy(path: Path, part: Path, progress: Progress) -> str:
    """Copy a file; return its digest, "sha256:...". Raises SystemFault."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            progress.begin(f"copying {path}", size)
            disk_space.check(part.parent, size)
            why = _write(file, part, 0, digest, progress)
    except OSError as error:
        why = error.strerror or str(error)
    if why:
        raise SystemFault(f"cannot read {path}", why, id="download-unreadable")
    return f"sha256:{digest.hexdigest()}"


def forget(part: Path) -> None:
    part.unlink(missing_ok=True)
    _notes(part).unlink(missing_ok=True)


def _ask(url: str, name: str, part: Path, size: int | None, have: int) -> HTTPResponse:
    headers, notes = {"Accept-Encoding": "identity"}, read_json(_notes(part)) or {}
    if have and notes.get("url") == digests.of_text(url) and notes.get("mark"):
        headers.update({"Range": f"bytes={have}-", "If-Range": notes["mark"]})
    try:
        answer = http.send(url, headers)
    except HTTPError as error:
        if error.code != HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE or not have:
            raise
        forget(part)
        return _ask(url, name, part, size, 0)
    if size and answer.length is not None and _start(answer, have) + answer.length != size:
        length = _start(answer, have) + answer.length
        raise Refused(
            f"{name} is another file: {length} bytes instead of {size}", id="download-other-length"
        )
    # A weak ETag is no promise of the same bytes.
    tag = answer.headers.get("ETag", "W/")
    mark = answer.headers.get("Last-Modified", "") if tag.startswith("W/") else tag
    # Not the address itself: it may hold a password, which need not lie on a disk.
    notes = {"url": digests.of_text(url), "mark": mark}
    _notes(part).write_text(json.dumps(notes), encoding="utf-8")
    return answer


def _notes(part: Path) -> Path:
    return part.with_suffix(".from")


def _start(answer: HTTPResponse, have: int) -> int:
    """Return the byte at which the answer begins; raise SystemFault for one that fits nothing."""
    if answer.status != HTTPStatus.PARTIAL_CONTENT:
        return 0
    served = RANGE.fullmatch(answer.headers.get("Content-Range", ""))
    if not served or int(served[1]) != have:
        raise SystemFault(
            "the server gave another range than was asked for",
            str(answer.headers),
            id="download-other-range",
        )
    return have


def _write(
    source: HTTPResponse | BinaryIO,
    part: Path,
    start: int,
    digest: Any,
    progress: Progress,
    most: int | None = None,
) -> str:
    """Write the rest of `source` at `start`; return why it could not be read, "" at its end.

    It ends where the file has more than `most` bytes: a server may send without end.
    """
    done, why = start, ""
    with disk_space.writing(part), part.open("r+b" if start else "wb") as file:
        file.seek(start)
        while most is None or done <= most:
            try:
                chunk = source.read(CHUNK)
            except (OSError, HTTPException) as error:
                why = str(error) or type(error).__name__
                break
            if not chunk:
                break
            file.write(chunk)
            digest.update(chunk)
            done += len(chunk)
            progress.at(done)
        file.truncate()
        file.flush()
        os.fsync(file.fileno())  # a full disk or quota may show only now
    return why


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _feed(digest: Any, part: Path) -> None:
    """Let a digest have what an earlier try has left."""
    if part.exists():
        with part.open("rb") as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
