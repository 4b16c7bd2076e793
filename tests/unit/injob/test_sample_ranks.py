"""NCCL's RAS is asked where it is this user's; what else listens is neither told nor waited for.

Against a stand-in: no NCCL runs without a GPU (tests/gpu asks a real one).
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runners.injob import sample_ranks
from runners.injob.rank import network
from tests import ras_server

WELCOME = b"SERVER PROTOCOL 2\n"
ERRORS = b"OK\nJob summary\n\nErrors\n======\n\n"
TABLE = "sl\n 0: 0100007F:{port:04X} 00000000:0000 0A 0:0 00:0 0 {uid} 0 1\n"


@contextmanager
def listener(*pieces: bytes, close: bool = True) -> Iterator[tuple[int, list[socket.socket]]]:
    """The port of a server, and who has come: a piece for each thing that is said."""
    server, come = socket.create_server(("127.0.0.1", 0)), []

    def speak() -> None:
        try:
            while True:
                client = server.accept()[0]
                come.append(client)
                for piece in pieces:
                    client.recv(99)
                    client.sendall(piece)
                if close:
                    client.close()
        except OSError:  # the test is over, or it has heard enough
            pass

    threading.Thread(target=speak, daemon=True).start()
    yield server.getsockname()[1], come
    server.shutdown(socket.SHUT_RDWR)
    server.close()


def test_the_answer_is_that_of_the_first_port_that_has_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    environment: dict[str, str] = {}
    with network.hold_for_ras(environment) as held, listener(close=False) as (silent, come):
        monkeypatch.setenv("NCCL_RAS_ADDR", environment["NCCL_RAS_ADDR"])
        ras_server.serve()
        sample_ranks.ras([str(silent), str(held.getsockname()[1]), str(silent)])
    assert len(come) == 1
    assert capsys.readouterr().out == f"OK\n{ras_server.BEHIND}\n"


@pytest.mark.parametrize(
    "pieces",
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\nErrors\n",),
        (bytes(range(256)) * 300,),
        (WELCOME, b"ERROR: Unknown command\n"),
        (WELCOME, bytes(range(256)) * 300),
        (WELCOME, b"OK\nCommunicators..."),
        (),
    ],
)
def test_what_is_no_answer_is_not_told(
    pieces: tuple[bytes, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with listener(*pieces) as (port, come):
        sample_ranks.ras([str(port)])
    assert (len(come), capsys.readouterr().out) == (1, "")


def test_nobody_listens(capsys: pytest.CaptureFixture[str]) -> None:
    with network.hold_for_ras({}) as held:
        sample_ranks.ras([str(held.getsockname()[1]), "0"])
    assert capsys.readouterr().out == ""


def test_a_server_that_falls_silent_is_left_at_the_limit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sample_ranks, "SECONDS_OF_RAS", 1.0)
    with listener(WELCOME, ERRORS, close=False) as (port, _):
        sample_ranks.ras([str(port)])
    assert "Errors" in capsys.readouterr().out


def test_a_long_answer_is_cut_and_cannot_steer_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = b"  Rank 1 \x1b[2J\xff\rx\n"
    with listener(WELCOME, ERRORS + line * (10 * 2**20 // len(line))) as (port, _):
        sample_ranks.ras([str(port)])
    out = capsys.readouterr().out
    assert len(out) <= sample_ranks.LARGEST_ANSWER
    assert "\n  Rank 1 [2Jx\n" in out
    assert not {*out} & {"\x1b", "\r", "\xff"}


@pytest.mark.parametrize("also_ours", [False, True])
def test_another_users_listener_is_not_asked(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    also_ours: bool,
) -> None:
    with listener(WELCOME, ERRORS) as (port, come):
        theirs, ours = tmp_path / "tcp", network.TABLES[0]
        theirs.write_text(TABLE.format(port=port, uid=os.geteuid() + 1))
        tables = (str(theirs), ours) if also_ours else (str(theirs),)
        monkeypatch.setattr(network, "TABLES", tables)
        sample_ranks.ras([str(port)])
    assert (come, capsys.readouterr().out) == ([], "")
