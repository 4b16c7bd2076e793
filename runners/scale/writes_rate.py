"""Whether a script of one's own writes a rate that a study can measure, judged by its text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ..core.trainer import Trainer
from ..jobs.metrics_tail import RATE

IMPORTED = re.compile(r"^\s*(?:import|from)\s+(\w+)", re.MULTILINE)


def warnings(trainer: Trainer) -> list[str]:
    """Return a warning where neither the script nor what it imports beside it names a rate."""
    file = trainer.file
    if file is None or trainer.uses_recipes or file.suffix != ".py":
        return []
    if any(RATE in text for text in _texts(file)):
        return []
    return [
        f"{file.name} seems to write no rate, and a run without one is not measured: rank 0 has to "
        "write result.json into $OUTPUT_DIR, with a number such as samples_per_s "
        "(docs/start/own-trainer.md)"
    ]


def _texts(file: Path) -> Iterator[str]:
    """Yield the text of a script, and of the modules and packages in its folder that it imports."""
    text = file.read_text(encoding="utf-8", errors="replace")
    yield text
    for name in dict.fromkeys(IMPORTED.findall(text)):
        package = file.with_name(name)
        modules = package.rglob("*.py") if (package / "__init__.py").is_file() else ()
        for module in filter(Path.is_file, (file.with_name(f"{name}.py"), *modules)):
            yield module.read_text(encoding="utf-8", errors="replace")
