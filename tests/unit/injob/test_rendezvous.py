"""The rendezvous of a Gloo job, with real sockets on loopback and no Horovod."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import stat
import struct
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runners.contract import interfaces
from runners.contract.failure_kinds import FailureKind
from runners.contract.interfaces import InterfaceAddress, is_loopback, own_addresses
from runners.injob.problems import Problem, RendezvousError
from runners.injob.rank import network
from runners.injob.rank.rendezvous import connections, hub, hub_state, protocol
from runners.injob.rank.rendezvous import proxy as proxy_module
from runners.injob.rank.rendezvous.hub import Hub
from runners.injob.rank.rendezvous.hub_state import Member, RankTable
from runners.injob.rank.rendezvous.protocol import (
    HEAD,
    HELLO,
    LAST,
    MEET,
    PLACE,
    TELL,
    VERDICT,
    Frame,
    Opening,
)
from runners.injob.rank.rendezvous.proxy import Proxy
from runners.injob.rank.rendezvous.session import meet

from .. import sentences

SECRET = b"s" * protocol.SECRET_BYTES


def address(number: int) -> bytes:
    """One of Gloo's addresses: family, then something that tells it from the others."""
    return struct.pack("=HI", socket.AF_INET, number).ljust(hub_state.SIZE, b"\0")


def nobody(places: Sequence[tuple[str, int]]) -> Problem:
    return Problem(FailureKind.RENDEZVOUS, "rank 0 on n1 did not answer")


def endpoint(
    places: list[tuple[str, int]],
    who: dict[str, Any],
    job: str = "job 42",
    address: str = "",
    **more: Any,
) -> Any:
    """What hub and proxy need of an endpoint; a real one looks for this machine's network."""
    gloo = {"interface": "eth0", "address": address}
    own = {"places": lambda: places, "who": who, "secret": SECRET, "job": job, "seconds": 5}
    own.update(gloo=lambda _: gloo, nobody=nobody, deliver=print)
    return SimpleNamespace(**{**own, **more})


class Client:
    """A proven connection to a hub, which waits for what it reads."""

    def __init__(
        self, place: tuple[str, int], secret: bytes, job: str, said_place: str = ""
    ) -> None:
        self.sock = socket.create_connection(place, timeout=20)
        opening = Opening(secret, job, (said_place or place[0], place[1]))
        self.sock.sendall(opening.hello())
        last = opening.last(self._read(protocol.OPENING))
        assert last is not None
        self.sock.sendall(last)

    def send(self, frame: Frame) -> None:
        self.sock.sendall(frame.pack())

    def receive(self) -> Frame:
        heard: list[Frame] = []
        talk = protocol.frames(heard.append)
        wanted = next(talk)
        while not heard:
            assert isinstance(wanted, int)
            wanted = talk.send(self._read(wanted))
        return heard[0]

    def _read(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            chunk = self.sock.recv(length - len(data))
            if not chunk:
                raise ConnectionResetError("closed")
            data += chunk
        return data


def admitted(place: tuple[str, int], secret: bytes, job: str, said_place: str = "") -> bool:
    """Whether a hub answers who says that."""
    try:
        Client(place, secret, job, said_place).sock.close()
    except OSError:
        return False
    return True


class World:
    """A hub and the proxies of `size` ranks, all on loopback."""

    def __init__(
        self, size: int, seconds: float = 5, one_host: bool = False, more: tuple[str, ...] = ()
    ) -> None:
        self.said: list[str] = []
        self.job, self.size, self.seconds = "job 42", size, seconds
        listening, further = connections.listen(["127.0.0.1"]), connections.bind(more)
        self.places = [sock.getsockname() for sock in listening + further]
        self.mail: list[tuple[int | None, bytes]] = []  # of rank 0, and verdicts
        hosts = [f"n{rank // 2 + 1}" for rank in range(size)]
        of_rank_0: dict[str, Any] = {
            "task": SimpleNamespace(size=size, hosts=hosts, one_host=one_host),
            "listening": listening,
            "later_listening": further,
            "own": {"127.0.0.1"},
            "trainer_port": network.hold_port(),
            "say": self.said.append,
            "seconds": seconds,
            "deliver": self.deliver,
        }
        self.hub = Hub(endpoint(self.places, self.who(0), self.job, **of_rank_0))
        self.hub.start()

    def deliver(self, sender: int | None, value: bytes) -> None:
        self.mail.append((sender, value))

    def who(self, rank: int, size: int = 0) -> dict[str, Any]:
        """A rank, two to a node."""
        host = f"n{rank // 2 + 1}"
        return {"rank": rank, "size": size or self.size, "host": host, "local_rank": rank % 2}

    def link(self, rank: int, size: int = 0) -> Client:
        """Connect as a rank, and say hello."""
        client = Client(self.places[0], SECRET, self.job)
        value = json.dumps({**self.who(rank, size), "address": ""}).encode()
        client.send(Frame(HELLO, value))
        return client

    def proxy(self, rank: int, address: str = "10.0.0.1") -> Proxy:
        """Start a rank's proxy."""
        proxy = Proxy()
        own = endpoint(self.places, self.who(rank), self.job, address, deliver=self.deliver)
        proxy.start(own)
        return proxy


def ask(proxy: Proxy, path: str) -> tuple[int, bytes]:
    """Ask a proxy with GET, as Horovod does."""
    return request(proxy, "GET", path)


def request(proxy: Proxy, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
    with socket.create_connection(("127.0.0.1", proxy.port)) as sock:
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        sock.sendall(head.encode() + body)
        answer = b"".join(iter(lambda: sock.recv(65536), b""))
    if not answer:
        return 0, b""
    head_, _, body = answer.partition(b"\r\n\r\n")
    return int(head_.split()[1]), body


def together(proxies: list[Proxy]) -> list[dict[str, Any]]:
    """Let all ranks meet at once."""
    socks = []
    for proxy in proxies:
        sock = socket.create_connection(("127.0.0.1", proxy.port), timeout=30)
        sock.sendall(f"GET {proxy.prefix}{MEET} HTTP/1.1\r\n\r\n".encode())
        socks.append(sock)
    found = []
    for sock in socks:
        answer = b"".join(iter(lambda sock=sock: sock.recv(65536), b""))  # type: ignore[misc]
        found.append(json.loads(answer.partition(b"\r\n\r\n")[2]))
        sock.close()
    return found


@pytest.fixture
def three() -> list[Proxy]:
    world = World(3)
    return [world.proxy(rank) for rank in range(3)]


def test_ranks_meet_and_learn_their_places(three: list[Proxy]) -> None:
    heard = together(three)
    assert [answer["problem"] for answer in heard] == [None, None, None]
    places = [answer["answer"]["place"] for answer in heard]
    assert [tuple(place.values()) for place in places] == [(0, 2, 0, 2), (1, 2, 0, 1), (0, 1, 1, 2)]


def leave_lists(proxies: list[Proxy], more: int = 0) -> None:
    """Leave each rank's list of addresses: 10 times its own number, and the reader's, and more."""
    for rank, proxy in enumerate(proxies):
        others = [reader for reader in range(len(proxies)) if reader != rank]
        value = b"".join(address(10 * rank + reader + more) for reader in others)
        assert request(proxy, "PUT", f"{proxy.prefix}global/{rank}", value)[0] == 200


def test_lists_reach_all_in_the_part_that_is_needed(three: list[Proxy]) -> None:
    nothing = bytes(hub_state.SIZE)  # its address for another rank stayed away
    for more in (0, 100):  # the second time after hvd.shutdown()
        together(three)
        leave_lists(three, more)
        lists = [
            [ask(proxy, f"{proxy.prefix}global/{rank}")[1] for rank in range(3)] for proxy in three
        ]
        assert lists[0][1:] == [address(10 + more) + nothing, address(20 + more) + nothing]
        assert lists[1][::2] == [address(1 + more) + nothing, nothing + address(21 + more)]
        assert lists[2][:2] == [nothing + address(2 + more), nothing + address(12 + more)]
        for rank, proxy in enumerate(three):
            assert request(proxy, "DELETE", f"{proxy.prefix}global/{rank}")[0] == 200


def test_a_rank_makes_one_request_for_all_lists() -> None:
    """Whatever their number, and though some have read all before others begin."""
    world = World(8)
    proxies = [world.proxy(rank) for rank in range(8)]
    together(proxies)
    before = world.hub.received
    leave_lists(proxies)
    for rank, proxy in enumerate(proxies):
        for writer in range(8):
            assert ask(proxy, f"{proxy.prefix}global/rank_{writer}")[0] == 404
            if writer != rank:
                assert ask(proxy, f"{proxy.prefix}global/{writer}")[0] == 200
        assert request(proxy, "DELETE", f"{proxy.prefix}global/{rank}")[0] == 200
    assert world.hub.received - before == 8


def test_a_list_is_not_there_before_all_are(
    three: list[Proxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Horovod hears that now and then, and asks again until its own time limit."""
    monkeypatch.setattr(proxy_module, "HOLD_SECONDS", 0.1)
    together(three)
    first, *others = three
    value = 2 * address(1)
    request(first, "PUT", f"{first.prefix}global/0", value)
    assert ask(first, f"{first.prefix}global/1")[0] == 404
    for rank, proxy in enumerate(others, 1):
        request(proxy, "PUT", f"{proxy.prefix}global/{rank}", value)
    deadline = time.monotonic() + 10
    while ask(first, f"{first.prefix}global/1")[0] != 200:
        assert time.monotonic() < deadline


def test_values_of_another_form_travel_whole(three: list[Proxy]) -> None:
    together(three)
    request(three[0], "PUT", f"{three[0].prefix}other/0", b"\0anything")
    request(three[1], "PUT", f"{three[1].prefix}other/1", b"x")
    assert ask(three[1], f"{three[1].prefix}other/0") == (200, b"\0anything")


def test_host_names_of_gloo_stay_at_home(three: list[Proxy]) -> None:
    proxy = three[0]
    assert request(proxy, "PUT", f"{proxy.prefix}global/rank_0", b"n1")[0] == 200
    assert ask(proxy, f"{proxy.prefix}global/rank_1")[0] == 404


def test_a_second_meeting_sees_nothing_of_the_first(three: list[Proxy]) -> None:
    for word in (b"first", b"second"):
        together(three)
        for rank, proxy in enumerate(three):
            request(proxy, "PUT", f"{proxy.prefix}global/{rank}", word)
        for proxy in three:
            values = {ask(proxy, f"{proxy.prefix}global/{rank}")[1] for rank in range(3)}
            assert values == {word}
        for rank, proxy in enumerate(three):
            assert request(proxy, "DELETE", f"{proxy.prefix}global/{rank}")[0] == 200


def test_a_store_answers_only_who_knows_its_path() -> None:
    world = World(1)
    proxy = world.proxy(0)
    assert ask(proxy, "/global/0") == (0, b"")
    assert ask(proxy, proxy.prefix.replace(proxy.token, "0" * 32) + "global/0") == (0, b"")


@pytest.mark.parametrize("words", [b"", b"GET / HTTP/1.0\r\n\r\n" * 4, b"\0" * 48])
def test_the_hub_says_nothing_to_strangers(words: bytes) -> None:
    world = World(2)
    with socket.create_connection(world.places[0]) as sock:
        sock.sendall(words)
        sock.shutdown(socket.SHUT_WR)
        assert sock.recv(100) == b""
    assert not admitted(world.places[0], b"wrong" * 8, world.job)
    assert not admitted(world.places[0], SECRET, "another job")
    assert admitted(world.places[0], SECRET, world.job)
    assert world.hub.table.members == {}


def test_proofs_that_were_made_for_another_place_are_no_good() -> None:
    """Else somebody else's port could pass them on to the hub, and then speak for the rank."""
    world = World(2)
    assert not admitted(world.places[0], SECRET, world.job, said_place="127.0.0.9")


def test_strangers_who_say_nothing_are_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "STRANGER_SECONDS", 0.1)
    world = World(2)
    with socket.create_connection(world.places[0], timeout=5) as sock:
        assert sock.recv(100) == b""


def test_of_too_many_strangers_the_oldest_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "STRANGERS", 1)
    world = World(2)
    first, *others = (socket.create_connection(world.places[0], timeout=5) for _ in range(4))
    assert first.recv(100) == b""
    assert not select.select(others, [], [], 0.1)[0]
    assert admitted(world.places[0], SECRET, world.job)


def test_more_than_a_socket_takes_at_once_arrives_whole() -> None:
    world = World(2)
    slow, proxy, body = world.link(1), world.proxy(0), os.urandom(1 << 24)
    slow.send(Frame("GET other/0"))
    slow.send(Frame("PUT other/1", b"x"))
    assert request(proxy, "PUT", f"{proxy.prefix}other/0", body)[0] == 200
    assert ask(proxy, f"{proxy.prefix}other/1") == (200, b"x")  # the hub has time for others
    assert slow.receive() == Frame("GET other/0", body)


def test_the_hub_serves_on_after_odd_lists() -> None:
    world = World(3)
    link = world.link(1)
    for slot in (0, 1, 7):
        link.send(Frame(f"LIST odd/{slot}", address(slot) * 2))
    answers = [link.receive() for _ in range(3)]
    assert [len(zlib.decompress(frame.value)) for frame in answers] == 3 * [3 * hub_state.SIZE]


@pytest.mark.parametrize("said", [b"5", b"{}", b"[" * 100_000])
def test_a_rank_that_says_nonsense_ends_alone(said: bytes) -> None:
    world = World(2, seconds=60)
    odd = Client(world.places[0], SECRET, world.job)
    odd.send(Frame(HELLO, said))
    with pytest.raises(ConnectionResetError, match="closed"):
        odd.receive()
    together([world.proxy(0), world.proxy(1)])


def test_who_repeats_what_a_rank_said_gets_no_further() -> None:
    """Somebody who has read a rank's first words on the network cannot say the last ones."""
    world = World(2)
    opening = Opening(SECRET, world.job, world.places[0])
    with socket.create_connection(world.places[0]) as sock:
        sock.sendall(opening.hello())
        assert len(sock.recv(protocol.OPENING)) == protocol.OPENING
        sock.sendall(b"\0" * protocol.PROOF)
        assert sock.recv(100) == b""


def test_a_rank_is_not_taken_in_by_a_false_hub() -> None:
    with socket.create_server(("127.0.0.1", 0)) as false:
        false.settimeout(5)
        place = ("127.0.0.1", false.getsockname()[1])
        sock = socket.create_connection(place)
        conn, _ = false.accept()
        with conn, sock:
            sock.sendall(b"\0" * protocol.OPENING)
            assert Opening(SECRET, "j", place).last(conn.recv(protocol.OPENING)) is None


def test_the_hub_listens_no_longer_when_all_have_come() -> None:
    world = World(2)
    links = [world.link(rank) for rank in range(2)]
    deadline = time.monotonic() + 5
    while admitted(world.places[0], SECRET, world.job):
        assert time.monotonic() < deadline
    assert len(links) == 2


def test_the_hub_listens_on_more_addresses_while_ranks_are_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hub, "WIDEN_SECONDS", 0.1)
    world = World(2, more=("127.0.0.2",))
    deadline = time.monotonic() + 5
    while not admitted(world.places[1], SECRET, world.job):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_missing_rank_is_named_with_its_node() -> None:
    world = World(4, seconds=1)
    proxies = [world.proxy(rank) for rank in (0, 1)]
    waiting = world.link(2)
    text = "after 1 s rank 3 (on n2) has not started; rank 2@n2 has started, but not called"
    for heard in together(proxies):
        assert text in str(heard["problem"])
    assert text in world.said[0]
    assert heard["problem"]["fields"]["silent"] == [[3, "n2"]]
    assert heard["problem"]["fields"]["late"] == [[2, "n2"]]
    assert not select.select([waiting.sock], [], [], 0.1)[0]  # who does not ask is not told


def test_a_rank_that_ended_is_named_at_once() -> None:
    world = World(3, seconds=60)
    world.link(2).sock.close()
    assert "rank 2@n2 ended before" in str(together([world.proxy(0), world.proxy(1)])[0]["problem"])


def test_a_rank_that_ended_without_a_list_is_named_to_those_who_wait_for_it() -> None:
    world = World(3, seconds=60)
    proxies, last = [world.proxy(0), world.proxy(1)], world.link(2)
    last.send(Frame(f"GET {MEET}"))
    together(proxies)
    for rank, proxy in enumerate(proxies):
        request(proxy, "PUT", f"{proxy.prefix}global/{rank}", 2 * address(rank))
    last.sock.close()
    for rank, proxy in enumerate(proxies):
        deadline = time.monotonic() + 10
        while ask(proxy, f"{proxy.prefix}global/{1 - rank}")[0] != 500:
            assert time.monotonic() < deadline
        assert proxy.problem is not None
        assert "rank 2@n2 ended" in proxy.problem.text


def test_two_of_one_rank_and_another_size_are_refused() -> None:
    world = World(2, seconds=60)
    proxy = world.proxy(0)
    world.link(1, size=5)
    with sentences.refuses(RendezvousError):
        meet(proxy.port, proxy.prefix)
    world = World(2, seconds=60)
    links = [world.link(1), world.link(1)]
    heard = select.select([link.sock for link in links], [], [], 5)[0]
    refused = next(link for link in links if link.sock in heard)
    assert b"there are two ranks 1: on n1 and on n1" in refused.receive().value


def test_ipv4_here_and_ipv6_there_is_said_before_gloo_aborts() -> None:
    world = World(2, seconds=60)
    heard = together([world.proxy(0), world.proxy(1, "fd00::1")])
    assert heard[0]["problem"]["text"] == "Gloo would use IPv4 on rank 0@n1, but IPv6 on rank 1@n1"


@pytest.mark.parametrize("words", [b"", b"GET /", b"PUT /x HTTP/1.1\r\nContent-Length: 9\r\n\r\n"])
def test_connections_of_strangers_keep_nobody_waiting(
    three: list[Proxy], words: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than a proxy takes at a time, and each with half a request."""
    monkeypatch.setattr(connections, "STRANGER_SECONDS", 3600)
    strange = []
    for _ in range(2 * connections.STRANGERS):
        strange.append(socket.create_connection(("127.0.0.1", three[0].port)))
        with contextlib.suppress(OSError):
            strange[-1].sendall(words)
    together(three)
    for sock in strange:
        sock.close()


def test_a_stranger_is_sent_away_by_a_store_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "STRANGER_SECONDS", 0.1)
    proxy = World(1).proxy(0)
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=5) as sock:
        sock.sendall(b"GET /half")
        assert sock.recv(100) == b""


def test_a_request_without_an_end_is_no_request() -> None:
    proxy = World(1).proxy(0)
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=5) as sock:
        sock.sendall(b"x" * (connections.LONGEST_LINES + 1))
        with contextlib.suppress(ConnectionResetError):
            assert sock.recv(100) == b""


def test_when_rank_0_ends_the_others_say_so() -> None:
    world = World(2, seconds=60)
    proxy = world.proxy(1)
    rank_0 = world.link(0)
    with socket.create_connection(("127.0.0.1", proxy.port)) as sock:
        sock.sendall(f"GET {proxy.prefix}{MEET} HTTP/1.1\r\n\r\n".encode())
        rank_0.sock.close()
        answer = b"".join(iter(lambda: sock.recv(65536), b""))
    assert b"rank 0@n1 ended before all had met" in answer


def test_rank_0_stays_until_each_rank_knows_where_it_was() -> None:
    world = World(2, one_host=True)
    soon, late = world.proxy(0), world.proxy(1)
    ask(soon, f"{soon.prefix}{PLACE}")
    assert not world.hub.all_places_sent.wait(0.3)
    ask(late, f"{late.prefix}{PLACE}")
    assert world.hub.all_places_sent.wait(5)


def test_what_ranks_tell_reaches_rank_0_and_its_verdict_the_others() -> None:
    """Also what is told before rank 0 has come; nobody else gives a verdict."""
    world = World(2, seconds=60)
    second = world.proxy(1)
    request(second, "PUT", f"{second.prefix}{TELL}", b"early")
    assert request(second, "PUT", f"{second.prefix}{LAST}", b"last")[0] == 200
    assert world.mail == [(1, b"early"), (1, b"last")]
    first = world.proxy(0)
    request(second, "PUT", f"{second.prefix}{VERDICT}", b"false")
    together([first, second])
    request(first, "PUT", f"{first.prefix}{VERDICT}", b"true")
    deadline = time.monotonic() + 10
    while len(world.mail) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.1)  # in which an echo would come
    assert world.mail[2:] == [(None, b"true")]


def test_without_a_hub_the_store_says_so() -> None:
    proxy = Proxy()
    proxy.start(endpoint([], {}, seconds=0.2))
    with sentences.refuses(RendezvousError):
        meet(proxy.port, proxy.prefix)
    assert ask(proxy, f"{proxy.prefix}global/0")[0] == 500


def test_a_stranger_does_not_start_the_wait_for_rank_0() -> None:
    """Rank 0 may be late; the time counts from when Horovod has asked."""
    world, proxy, places = World(1), Proxy(), list[tuple[str, int]]()
    proxy.start(endpoint(places, world.who(0), seconds=30))
    with socket.create_connection(("127.0.0.1", proxy.port)) as sock:
        sock.sendall(b"GET /runner/meet HTTP/1.1\r\n\r\n")
        assert sock.recv(1) == b"", "it is sent away"
    assert proxy.asked is None
    places += world.places
    assert meet(proxy.port, proxy.prefix)["HOROVOD_LOCAL_SIZE"] == "1"


def test_a_hub_that_does_not_answer_is_given_up_for_the_next() -> None:
    world, proxy = World(1), Proxy()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        places = [silent.getsockname(), ("127.0.0.1", 1), *world.places]
        proxy.start(endpoint(places, world.who(0)))
        assert meet(proxy.port, proxy.prefix)["HOROVOD_LOCAL_SIZE"] == "1"


def test_what_is_published_is_only_this_jobs_and_its_users(tmp_path: Path) -> None:
    """The file is there from the first look on: NFS would remember that it is not."""
    run_dir, file = str(tmp_path), tmp_path / connections.NAME
    assert connections.published(run_dir, "42.0") == []
    assert file.stat().st_size == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    socks = connections.bind(["127.0.0.1", "127.0.0.2"])
    connections.publish(run_dir, "42.0", socks)
    assert connections.published(run_dir, "42.0") == [sock.getsockname() for sock in socks]
    assert connections.published(run_dir, "42.0.1") == []  # requeued
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_another_hosts_address_that_is_ours_too_is_no_way_to_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each node's bridge of docker's has the same one, where a stranger may listen."""
    run_dir, own = str(tmp_path), {"127.0.0.1", "127.0.0.2"}
    (one, two) = connections.listen(["127.0.0.1", "127.0.0.3"])
    connections.publish(run_dir, "42.0", [one, two])
    assert len(connections.published(run_dir, "42.0", own)) == 2
    monkeypatch.setattr(interfaces, "network", lambda: "of another host")
    assert connections.published(run_dir, "42.0", own) == [two.getsockname()]


def test_nobody_else_can_bind_a_port_of_the_hubs() -> None:
    """Not even with SO_REUSEADDR, though it is not listened on yet."""
    (held,) = connections.bind(["127.0.0.1"])
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with pytest.raises(OSError, match="in use"):
            sock.bind(held.getsockname())


def test_an_address_that_cannot_be_had_is_left_out() -> None:
    assert len(connections.bind(["192.0.2.1", "127.0.0.1"])) == 1  # RFC 5737: nobody's


def test_the_secret_is_the_same_for_all_and_for_nobody_else(tmp_path: Path) -> None:
    one, two = protocol.secret_of(str(tmp_path)), protocol.secret_of(str(tmp_path))
    assert one == two
    assert len(one) == protocol.SECRET_BYTES
    assert stat.S_IMODE((tmp_path / protocol.SECRET).stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [protocol.SECRET]


def test_frames_come_out_as_they_went_in() -> None:
    heard: list[Frame] = []
    talk = protocol.frames(heard.append)
    assert next(talk) == HEAD.size
    for frame in (Frame("PUT local_né/3", b"\0" * 300), Frame("")):
        head, rest = frame.pack()[: HEAD.size], frame.pack()[HEAD.size :]
        assert talk.send(head) == len(rest)
        assert talk.send(rest) == HEAD.size
        assert heard.pop() == frame


def test_a_frame_without_end_is_refused() -> None:
    talk = protocol.frames(print)
    next(talk)
    with pytest.raises(connections.WireError):
        talk.send(HEAD.pack(0, protocol.LONGEST + 1))


def test_places_of_uneven_hosts() -> None:
    """As mpirun --host n2:1,n1:3 starts them, and with local ranks that are none."""
    table = RankTable(4)
    for rank, host in enumerate(("n2", "n1", "n1", "n1")):
        table.members[rank] = Member(host, local_rank=0)
    places = [tuple(place.values()) for _, place in sorted(table.places().items())]
    assert places == [(0, 1, 0, 2), (0, 3, 1, 2), (1, 3, 0, 1), (2, 3, 0, 1)]


def test_many_missing_ranks_are_counted() -> None:
    text = RankTable(100).missing("silent")
    assert text == "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 92 more have not started"


OWN = [
    InterfaceAddress("lo", "127.0.0.1"),
    InterfaceAddress("eth0", "10.1.0.2"),
    InterfaceAddress("ib0", "10.2.0.2"),
    InterfaceAddress("ib0", "fd0::2"),
]


def test_interfaces_of_this_host() -> None:
    found = own_addresses()
    assert ("lo", "127.0.0.1") in [(interface.name, interface.address) for interface in found]
    assert all(is_loopback(interface.address) == (interface.name == "lo") for interface in found)


def test_where_rank_0_listens() -> None:
    usable = ["10.1.0.2", "10.2.0.2", "fd0::2"]
    assert network.listening(OWN, ["10.1.0.2"], [], []) == (usable[:1], usable[1:])
    assert network.listening(OWN, ["10.1.0.2"], [], ["ib0"]) == (usable, [])
    # A name that leads to loopback, as Debian's /etc/hosts makes it, tells nothing.
    assert network.listening(OWN, ["127.0.1.1"], [], []) == (usable, [])


@pytest.mark.parametrize(
    ("wanted", "better", "name"),
    [(["ib0"], "eth0", "ib0"), (["ib0", "eth0"], "eth0", "eth0"), (["ib7"], "eth0", "")],
)
def test_which_of_the_wanted_interfaces(wanted: list[str], better: str, name: str) -> None:
    assert network.chosen(OWN, wanted, better) == name


@pytest.mark.parametrize(
    ("named", "interface", "one_host", "misleading"),
    [
        ("10.1.0.2", "eth0", False, False),
        ("10.1.0.2", "ib0", False, True),
        ("127.0.1.1", "eth0", False, True),
        ("127.0.1.1", "lo", True, False),
        ("", "lo", True, True),
    ],
)
def test_names_that_mislead_gloo(
    named: str, interface: str, one_host: bool, misleading: bool
) -> None:
    assert network.misleading(OWN, interface, named, one_host) is misleading


@pytest.mark.parametrize(
    ("named", "wanted", "one_host", "sure"),
    [
        ("10.1.0.2", [], False, False),
        ("10.1.0.2", ["ib0"], False, True),
        ("10.1.0.2", ["ib0", "eth0"], False, False),
        ("127.0.1.1", [], False, True),
        ("", [], False, True),
        ("127.0.1.1", [], True, False),
    ],
)
def test_names_that_mislead_whatever_the_way(
    named: str, wanted: list[str], one_host: bool, sure: bool
) -> None:
    assert network.surely_misleading(OWN, named, wanted, one_host) is sure


def test_interfaces_that_lead_to_others() -> None:
    assert network.usable([*OWN, InterfaceAddress("usb0", "fe80::1")]) == {"eth0", "ib0"}
