"""A listener that keeps what it is told."""

from __future__ import annotations

from runners.core.progress import Listener


class Told(Listener):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def tell(self, text: str) -> None:
        self.texts.append(text)
