"""The values that ranks leave for each other, by scope; a rank that leaves one gets the others'."""

from __future__ import annotations

from typing import Callable

from . import peer_address, protocol
from .connections import Guest
from .protocol import Frame


class Scope:
    """What one of Horovod's key-value scopes holds, and who reads it at which slot."""

    def __init__(self) -> None:
        self.values: dict[str, tuple[Guest, bytes]] = {}
        self.readers: dict[Guest, int | None] = {}


class Exchange:
    """Passes values on as they come. `send` sends a frame to a guest."""

    def __init__(self, send: Callable[[Guest, Frame], None]) -> None:
        self.send = send
        self.scopes: dict[str, Scope] = {}

    def put(self, guest: Guest, frame: Frame) -> None:
        """Keep a value, pass it to the scope's other readers, and make its owner one of them."""
        scope = self.scopes.setdefault(frame.scope, Scope())
        for reader, slot in scope.readers.items():
            if reader is not guest:
                self._pass_on(reader, slot, frame)
        if guest not in scope.readers:
            slot = int(frame.key) if frame.key.isdigit() else None
            scope.readers[guest] = slot
            for key, (owner, value) in scope.values.items():
                if owner is not guest:
                    self._pass_on(guest, slot, Frame(protocol.VALUE, frame.scope, key, value))
        scope.values[frame.key] = guest, frame.value

    def _pass_on(self, reader: Guest, slot: int | None, frame: Frame) -> None:
        """Send a value: all of it, or of a list of Gloo's addresses the entry at the slot."""
        kind, value = protocol.VALUE, frame.value
        if slot is not None and frame.key.isdigit() and peer_address.is_list(value):
            kind, value = protocol.ENTRY, peer_address.cut(value, int(frame.key), slot)
        self.send(reader, Frame(kind, frame.scope, frame.key, value))

    def done(self, guest: Guest, name: str) -> None:
        """Forget what a guest put in a scope, all of which it has read, and tell it so."""
        scope = self.scopes.get(name, Scope())
        scope.values = {key: entry for key, entry in scope.values.items() if entry[0] is not guest}
        scope.readers.pop(guest, None)
        if not scope.values:
            self.scopes.pop(name, None)
        self.send(guest, Frame(protocol.ACK, name))

    def forget(self, guest: Guest) -> None:
        """Send nothing more to a guest that has left."""
        for scope in self.scopes.values():
            scope.readers.pop(guest, None)
