"""One training by `runner launch` with an image on a slow folder; prints its times as JSON.

`ready` is from the start of the job's script to the end of the first training step, in seconds.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from . import first_step


def main() -> None:
    """Command line: options of `runner launch` after --."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", required=True, help="on a file system of all nodes")
    parser.add_argument("asked", nargs="+")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        times = first_step.launched(options.asked, Path(name))
    ready = times["total"] - times["submit"] - times["wait"]
    print(json.dumps({"ready": ready, "trainer": times["trainer"]}))


if __name__ == "__main__":
    main()
