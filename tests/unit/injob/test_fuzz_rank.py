"""What listens in a rank drops what anybody sends, and hears the next word."""

from __future__ import annotations

import contextlib
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.contract.enums import ProcessGroup
from runners.injob.rank import reports
from runners.injob.rank.rendezvous import connections, protocol, proxy
from runners.injob.rank.rendezvous.connections import Connection
from runners.injob.rank.rendezvous.protocol import HEAD, Frame, Opening
from runners.injob.rank.reports import ReportState

from .test_rendezvous import World, together

ODD = [b"", b"5", b"\xff\xfe", b"[" * 4000, '["é","a","b"]'.encode(), b"formed torch.distributed"]


def send(inbox: reports.Inbox, data: bytes) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.sendto(data, f"\0{inbox.name}")


@given(st.one_of(st.binary(max_size=300), st.sampled_from(ODD)))
def test_the_inbox_hears_nothing_of_who_does_not_know_the_token(data: bytes) -> None:
    inbox = reports.Inbox()
    send(inbox, data)
    send(inbox, bytes.fromhex(inbox.token)[: len(data) % reports.TOKEN])
    with pytest.raises(BlockingIOError):
        inbox.sock.recv(1)


@given(st.one_of(st.binary(max_size=300), st.sampled_from(ODD[:-1])))
def test_an_odd_report_changes_nothing(data: bytes) -> None:
    inbox = reports.Inbox()
    token = bytes.fromhex(inbox.token)
    send(inbox, token + data)
    send(inbox, token)
    reports.tell(inbox.name, inbox.token, ProcessGroup.HOROVOD, ReportState.CALLED)
    inbox.read()
    assert inbox.last == {ProcessGroup.HOROVOD: ReportState.CALLED}
    assert not inbox.ended


def test_a_flood_of_strange_datagrams_delays_nobody() -> None:
    """100,000 of them do not fill the queue, in which there is room for ten."""
    inbox = reports.Inbox()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)  # a full queue would be an error
        for _ in range(100_000):
            sock.sendto(b"x" * 40, f"\0{inbox.name}")
    reports.tell(inbox.name, inbox.token, ProcessGroup.TORCH, ReportState.FORMED)
    inbox.read()
    assert inbox.formed == {ProcessGroup.TORCH}


@given(st.binary(max_size=200))
def test_an_opening_of_anybody_is_refused(data: bytes) -> None:
    opening = Opening(b"s" * protocol.SECRET_BYTES, "job", ("127.0.0.1", 1))
    padded = data.ljust(protocol.OPENING, b"\0")[: protocol.OPENING]
    assert opening.answer(padded) is None
    assert opening.last(padded) is None
    assert not opening.complete(data)


@given(st.binary(min_size=HEAD.size, max_size=HEAD.size), st.binary(max_size=200))
def test_a_frame_of_anybody_is_one_or_is_refused(head: bytes, rest: bytes) -> None:
    heard: list[Frame] = []
    talk = protocol.frames(heard.append)
    next(talk)
    with contextlib.suppress(connections.WireError, UnicodeDecodeError):
        talk.send(head)
        talk.send(rest)
        assert heard


@given(st.binary(max_size=300))
def test_the_head_of_a_request_of_anybody_is_one_or_none(head: bytes) -> None:
    found = proxy.parse_head(head)
    assert found is None or 0 <= found[2] <= proxy.LONGEST_BODY


@given(st.lists(st.binary(min_size=1, max_size=60), max_size=20))
def test_a_conversation_gets_what_it_asks_for_however_the_bytes_come(pieces: list[bytes]) -> None:
    """A number of bytes, or all up to a delimiter."""
    heard: list[bytes] = []

    def talk(connection: Connection) -> connections.Talk:
        while True:
            heard.append((yield b"\0\0"))
            heard.append((yield 3))

    with socket.socket() as sock:
        connection = Connection(sock, ("",))
        connection.begin(talk(connection))
        for piece in pieces:
            connection.hear(piece)
    said = b"".join(pieces)
    assert b"".join(heard) + bytes(connection.unread) == said
    assert all(
        part.endswith(b"\0\0") and part.index(b"\0\0") == len(part) - 2 for part in heard[::2]
    )
    assert all(len(part) == 3 for part in heard[1::2])


def test_hub_and_proxy_serve_on_after_anything() -> None:
    """What hypothesis finds is sent to real ones, of which there is one for all that it tries."""
    world = World(2, seconds=60)
    rank = world.proxy(0)

    @given(st.binary(max_size=3000))
    def say(data: bytes) -> None:
        for place in (world.places[0], ("127.0.0.1", rank.port)):
            with socket.create_connection(place, timeout=10) as sock:
                sock.sendall(data)

    say()
    assert [answer["problem"] for answer in together([rank, world.proxy(1)])] == [None, None]
