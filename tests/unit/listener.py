"""A listener and a progress that keep what they are told."""

from __future__ import annotations

from runners.core.progress import Listener, Progress


class Told(Listener):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def tell(self, text: str) -> None:
        self.texts.append(text)


class Said(Progress):
    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def begin(self, what: str, total: int | None = None) -> None:
        self.said.append(what)
