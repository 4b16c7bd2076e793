"""A download that can be gone on with: HTTP ranges, for the same file only, by its ETag or date.

RFC 9110: `Range` with `If-Range` gives 206 and the rest while the file is what it was, 200 and all
of it otherwise, or where the server has no ranges; 416 where nothing is left.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.error import HTTPError

from ..core import disk_space, http
from ..core.errors import Refused, RunnerError, SystemFault
from ..core.files import read_json
from ..core.progress import Progress

CHUNK = 1 << 20
TRIES = 5  # without a byte more than before
RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")


def download(url: str, part: Path, size: int | None, say: Progress) -> bool:
    """Have the file of `url` in `part`; return whether all of it came in one go.

    `size` is the one that it must have, None where nobody knows. A connection that is cut is taken
    up again as long as bytes come. Raises SystemFault when none do, Refused for a file of another
    size; then the part stays for the next time.
    """
    say.begin(f"fetching {url}", size)
    began, tries = _size(part), TRIES
    while True:
        before = _size(part)
        try:
            _go_on(url, part, size, say)
            return began == 0 and before == 0
        except SystemFault as error:
            tries = TRIES if _size(part) > before else tries - 1
            if not tries or not getattr(error, "cut", False):
                raise
            say.say(f"{error.message}; going on from there")


def forget(part: Path) -> None:
    """Remove a part and what is known of it."""
    part.unlink(missing_ok=True)
    _notes(part).unlink(missing_ok=True)


class _Interrupted(Exception):
    """Reading failed, not writing: both are an OSError otherwise."""


class _Cut(SystemFault):
    """The connection ended before the file did."""

    cut = True


def _go_on(url: str, part: Path, size: int | None, say: Progress) -> None:
    with _asked(url, part) as answer:
        start = _start(answer, part)
        total = size or (None if answer.length is None else start + answer.length)
        if size and answer.length is not None and start + answer.length != size:
            raise Refused(f"{url} is another file: {start + answer.length} bytes instead of {size}")
        if total:
            disk_space.check(part.parent, total - start, part.stem)
        _remember(url, part, answer)
        _write(answer, part, start, url, total, say)


def _asked(url: str, part: Path) -> HTTPResponse:
    have, known = _size(part), _known(url, part)
    headers = {"Accept-Encoding": "identity"}
    if have and known:
        headers.update({"Range": f"bytes={have}-", "If-Range": known})
    try:
        return http.send(url, headers)
    except HTTPError as error:
        if error.code == 416 and have:
            forget(part)
            return _asked(url, part)
        raise _refusal(url, error) from None


def _refusal(url: str, error: HTTPError) -> RunnerError:
    return SystemFault(f"{url} cannot be had", f"{error.code} {error.reason}")


def _start(answer: HTTPResponse, part: Path) -> int:
    """Return the byte at which the answer begins; raise SystemFault for one that fits nothing."""
    if answer.status != 206:
        return 0
    found = RANGE.fullmatch(answer.headers.get("Content-Range", ""))
    if not found or int(found.group(1)) != _size(part):
        raise SystemFault("the server gave another range than was asked for", str(answer.headers))
    return int(found.group(1))


def _write(
    answer: HTTPResponse, part: Path, start: int, url: str, total: int | None, say: Progress
) -> None:
    done, why = start, "the connection ended"
    try:
        with part.open("r+b" if start else "wb") as file:
            file.seek(start)
            try:
                while chunk := _read(answer):
                    file.write(chunk)
                    done += len(chunk)
                    say.at(done)
            except _Interrupted as error:
                why = str(error)
            file.truncate()
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise disk_space.fault(part, error) from None
    if total is not None and done != total:
        after = f"{disk_space.shown(done)} of {disk_space.shown(total)}"
        raise _Cut(f"{url} stopped after {after}", why, "run it again; it goes on from there")


def _read(answer: HTTPResponse) -> bytes:
    try:
        return answer.read(CHUNK)
    except (OSError, HTTPException) as error:
        raise _Interrupted(str(error) or type(error).__name__) from None


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _notes(part: Path) -> Path:
    return part.with_suffix(".from")


def _remember(url: str, part: Path, answer: HTTPResponse) -> None:
    """Note by what the server knows this file; a weak ETag is no promise of the same bytes."""
    etag = answer.headers.get("ETag", "")
    mark = etag if etag and not etag.startswith("W/") else answer.headers.get("Last-Modified", "")
    _notes(part).write_text(json.dumps({"url": _hash(url), "mark": mark}), encoding="utf-8")


def _known(url: str, part: Path) -> str:
    notes = read_json(_notes(part)) or {}
    return str(notes.get("mark", "")) if notes.get("url") == _hash(url) else ""


def _hash(url: str) -> str:
    """An address may hold a password, which need not lie on a disk."""
    return hashlib.sha256(url.encode()).hexdigest()
