"""What a launch tells and asks, at this terminal."""

from __future__ import annotations

from contextlib import AbstractContextManager

from ..core.errors import RunnerError
from ..core.progress import Listener, Progress
from ..images.local import ImageMissing
from . import printer


class Console(Listener):
    """Sentences and bars on stderr; a missing image is asked about where somebody can answer."""

    def tell(self, text: str) -> None:
        printer.tell(text)

    def progress(self) -> AbstractContextManager[Progress]:
        from . import progress  # 10 ms, for what a launch seldom has to wait for

        return progress.display()

    def bring_image(self, missing: RunnerError) -> bool:
        from .images import prebuilt  # with all that builds

        return isinstance(missing, ImageMissing) and prebuilt.brought(missing)
