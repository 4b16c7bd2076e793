"""How long `runner` takes to answer, against Python's own start and the import of click."""

from __future__ import annotations

from . import cluster
from .report import Part, compared, row

TITLE = "Start-up on the login node"
ROUNDS = 31
CLICK = 'python -c "import click"'
AIM = "< 3"  # 120 ms where `import click` takes 40


def measure() -> Part:
    """Measure. Raises BenchError."""
    cluster.require_image()
    found = cluster.login_program("startup", "--image", cluster.IMAGE, "--rounds", str(ROUNDS))
    took = {name: [1000 * seconds for seconds in values] for name, values in found.items()}
    click = took["click"]
    rows = (
        compared("python -c pass", took["python"], "ms", CLICK, click, ""),
        row(CLICK, click, "ms"),
        compared("runner --help", took["help"], "ms", CLICK, click, AIM),
        compared("runner launch --dry-run", took["dry-run"], "ms", CLICK, click, AIM),
    )
    return Part(TITLE, rows, samples=found)
