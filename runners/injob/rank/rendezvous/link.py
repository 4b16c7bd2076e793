"""A rank's connection to the hub: looked for until one proves to be it, and then kept."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Callable

from ..failure import Problem
from . import protocol
from .connections import Connection, Connections, Talk
from .protocol import Frame, Opening

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0  # seconds between two looks for the hub
CONNECT_SECONDS = 2.0  # an interface that leads nowhere never answers


@dataclass(frozen=True)
class LinkSettings:
    """How a rank finds the hub. `places` returns where it may be, as far as is known by now.

    `who` is the rank, for the hub; `gloo` tells through what Gloo will talk, where a connection
    leads to the hub. `nobody` says why there is none `seconds` after Horovod has asked for it, at
    the places that were tried.
    """

    places: Callable[[], Sequence[tuple[str, int]]]
    secret: bytes
    job: str
    who: Mapping[str, Any]
    gloo: Callable[[Connection], dict[str, str]]
    nobody: Callable[[Sequence[tuple[str, int]]], Problem]
    seconds: float


class Link:
    """Uses the `connections` of a store; `heard` is called with each frame."""

    def __init__(
        self, terms: LinkSettings, connections: Connections, heard: Callable[[Frame], None]
    ) -> None:
        self.terms, self.connections, self.heard = terms, connections, heard
        self.hub: Connection | None = None
        self.found = 0.0  # when
        self.gloo: dict[str, str] = {}
        self.places: Sequence[tuple[str, int]] = ()
        self.trying: list[Connection] = []
        self.due, self.pause = 0.0, FIRST_PAUSE
        self.unsent: list[Frame] = []  # of before it was found

    def look(self, now: float) -> None:
        """Try all places where the hub may be, if it is time to."""
        waits = any(not one.closed and now < one.began + CONNECT_SECONDS for one in self.trying)
        if self.hub is not None or now < self.due or waits:
            return
        self._end_tries()
        self.places = self.terms.places()
        talks = [(place, partial(self._talk, place)) for place in self.places]
        self.trying = [self.connections.connect(place, talk) for place, talk in talks]
        self.due, self.pause = now + self.pause, min(self.pause * 1.5, LONGEST_PAUSE)

    def send(self, frame: Frame) -> None:
        """Send a frame, once the hub is found."""
        if self.hub is None:
            self.unsent.append(frame)
        else:
            self.connections.send(self.hub, frame.pack())

    def _talk(self, place: tuple[str, int], connection: Connection) -> Talk:
        opening = Opening(self.terms.secret, self.terms.job, place)
        self.connections.send(connection, opening.hello())
        last = opening.last((yield protocol.OPENING))
        if last is None or self.hub is not None:
            return
        self.hub, self.found = connection, time.monotonic()
        self._end_tries()
        self.gloo = self.terms.gloo(connection)
        who = {**self.terms.who, "address": self.gloo["address"]}
        frames = [Frame(protocol.HELLO, value=json.dumps(who).encode()), *self.unsent]
        self.connections.send(connection, last + b"".join(frame.pack() for frame in frames))
        while True:
            head = yield protocol.HEAD.size
            self.heard(protocol.unpack(head, (yield protocol.length_after(head))))

    def _end_tries(self) -> None:
        for connection in self.trying:
            if connection is not self.hub:
                self.connections.end(connection)
        self.trying = []
