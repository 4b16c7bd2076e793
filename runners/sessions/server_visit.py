"""A visit to a server: how its job stands, the way to it once it answers, how it ended."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..contract.exit_codes import EXIT_NOT_SERVED
from ..contract.web_server import http_status
from ..core import files, places
from ..core.job_record import Job, JobPaths, JobState, Status
from ..jobs import job_status
from ..launching import private_folder
from ..monitoring import end, wording
from ..monitoring.end import JobEnd
from ..schedulers import capabilities
from . import server_address
from .server_address import ServerAddress, Way

SECONDS_TO_BE_REACHED = 10.0
LAST_LINES = 10


@dataclass(frozen=True)
class ServerState:
    """How the job of a server stands that does not answer yet, in words."""

    words: str


@dataclass(frozen=True)
class ServerAccess:
    """Where a server answers, and the way there, which `kept` has too, for its owner alone.

    `reached` is whether it answers to this machine, `status` how its job stands.
    """

    address: ServerAddress
    way: Way
    token: str
    reached: bool
    kept: Path
    status: Status


@dataclass(frozen=True)
class ServerEnd:
    """How a server ended; of one that never answered, the last lines of its log.

    `unclear` is whether it never answered, and did not say itself why.
    """

    status: Status
    exit_code: int
    last_lines: Sequence[str] = ()
    unclear: bool = False


class ServerVisit:
    """What has been told of a server so far, so that one can go on after an interruption.

    The ssh of other machines reaches `login`, a host.
    """

    def __init__(self, paths: JobPaths, job: Job, login: str) -> None:
        self.paths, self.job, self.login = paths, job, login
        self.words, self.answered = "", False

    def news(self) -> Iterator[ServerState | ServerAccess | ServerEnd]:
        """Yield how the job stands whenever that changes, then the way to the server, its end."""
        for (now,) in job_status.until_end([(self.paths, self.job)]):
            if not self.answered:
                yield from self._before_it_answers(now)
        yield self._end(now)

    def explained(self, ended: ServerEnd) -> JobEnd | None:
        """Return why a server ended that did not say so itself; None for one that did."""
        return end.of_job(self.paths, self.job, ended.status) if ended.unclear else None

    def _before_it_answers(self, now: Status) -> Iterator[ServerState | ServerAccess]:
        before, self.words = self.words, wording.describe(now)
        if now.state == JobState.PENDING and now.start:
            self.words += f"; {wording.beside(self.job, now)}"
        if self.words != before:
            yield ServerState(self.words)
        access = self._access(now) if now.state == JobState.RUNNING else None
        if access:
            self.answered = True
            yield access

    def _access(self, now: Status) -> ServerAccess | None:
        """Return the way to a server that runs, and write it down; None before it answers."""
        address = server_address.address(self.paths)
        if address is None:
            return None
        token = server_address.token(self.paths)
        here = not capabilities(self.job.scheduler).queue
        way = server_address.way(address, token, self.login, places.user(), here)
        reached = address.loopback or _reached(address, token)
        text = "".join(f"{line}\n" for line in way.lines)
        kept = private_folder.write(self.paths, server_address.ACCESS, text)
        return ServerAccess(address, way, token, reached, kept, now)

    def _end(self, now: Status) -> ServerEnd:
        code = end.exit_code_of(now, None)
        if self.answered:
            return ServerEnd(now, code)
        lines = files.read_text(Path(self.job.log)).splitlines()[-LAST_LINES:]
        return ServerEnd(now, code, lines, unclear=code != EXIT_NOT_SERVED)


def facts(visit: ServerVisit, access: ServerAccess) -> dict[str, Any]:
    """Return for programs where a server answers, and the way there."""
    run = {"id": visit.job.id, "folder": str(visit.paths.root)}
    way = {**asdict(access.address), **asdict(access.way)}
    return {**run, **way, "token": access.token, "reached": access.reached}


def _reached(address: ServerAddress, token: str) -> bool:
    """Whether a server answers to this machine, from where the tunnel will come."""
    deadline = time.monotonic() + SECONDS_TO_BE_REACHED
    while True:
        if http_status(address.address, address.port, address.page, token) == 200:
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.5)
