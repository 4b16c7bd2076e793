"""How far the training is: a bar on a terminal, sparse lines in a log."""

from __future__ import annotations

import sys
import time
from typing import Any


class Progress:
    """Steps done of `last_step`, from `first_step` on. Says nothing unless `speaks`."""

    def __init__(self, first_step: int, last_step: int, *, every: int, speaks: bool) -> None:
        self.first, self.last, self.every = first_step, last_step, every
        self.speaks = speaks
        self.began = time.perf_counter()
        shown = speaks and last_step > first_step and sys.stdout.isatty()
        self.bar: Any = _bar(first_step, last_step) if shown else None

    def due(self, step: int) -> bool:
        """Whether this step gets a line."""
        return step % self.every == 0

    def step(self, step: int, text: str) -> None:
        """Show that `step` is done; `text` goes beside the bar, or into the line."""
        if self.bar is not None:
            self.bar.set_postfix_str(text, refresh=False)
            self.bar.update(step - self.bar.n)
        elif self.speaks:
            print(f"  step {step}/{self.last}  {text}  {self._left(step)} left", flush=True)

    def say(self, text: str) -> None:
        """Print a line, above the bar if there is one."""
        if self.bar is not None:
            self.bar.write(text)
        elif self.speaks:
            print(text, flush=True)

    def close(self) -> None:
        """End the bar, whose last steps it may not have been told of."""
        if self.bar is not None:
            self.bar.update(self.last - self.bar.n)
            self.bar.close()

    def _left(self, step: int) -> str:
        done = max(1, step - self.first)
        seconds = (time.perf_counter() - self.began) / done * (self.last - step)
        minutes, rest = divmod(round(seconds), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _bar(first: int, last: int) -> Any:
    from tqdm import tqdm

    return tqdm(total=last, initial=first, unit="step", file=sys.stdout, dynamic_ncols=True)
