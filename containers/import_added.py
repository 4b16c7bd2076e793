"""Import each added package: python3 import_added.py NAMES

Run in the container while it is built, before the minutes of packing and testing. NAMES is a file
with the names of the packages that the user asked for. Standard library of Python 3.8.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import re
import sys
import tempfile
import traceback
from pathlib import Path

# Without a GPU some packages cannot be imported, which is no fault of the image's.
DRIVER = re.compile("libcuda|libnvidia|(nvidia|cuda) driver|no cuda", re.IGNORECASE)
# What some packages leave at the top of site-packages besides themselves.
BESIDE = frozenset({"setup", "test", "tests", "examples", "docs", "benchmarks"})
FRAMES = 3  # of a traceback, the innermost


def modules(name: str) -> set[str]:
    """The modules of a package to import: of its own name where there is one, else all."""
    top_level = set()
    for file in importlib.metadata.files(name) or ():
        first = file.parts[0].partition(".")[0]
        single = len(file.parts) == 1 and file.suffix in (".py", ".so")
        if (single or file.parts[1:] == ("__init__.py",)) and first.isidentifier():
            top_level.add(first)
    same = {module for module in top_level if _plain(module) == _plain(name)}
    return same or {module for module in top_level - BESIDE if not module.startswith("_")}


def _plain(name: str) -> str:
    return re.sub("[-_.]+", "-", name).lower()


def main(names: Path) -> int:
    """Import all; 1 at the first that cannot be."""
    for name in names.read_text(encoding="utf-8").split():
        for module in sorted(modules(name)):
            print(f"importing {module}", flush=True)
            try:
                importlib.import_module(module)
            except (Exception, SystemExit) as error:
                traceback.print_exc(limit=-FRAMES)
                what = f"{name} cannot be imported in the image: {type(error).__name__}: {error}"
                if not DRIVER.search(str(error)):
                    print(f"ERROR: {what}\nAsk for a version that fits the packages of the image.")
                    return 1
                print(f"warning: without a GPU {what}")
    return 0


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:  # what packages keep there is not for the image
        os.environ["HOME"] = os.environ["XDG_CACHE_HOME"] = home
        code = main(Path(sys.argv[1]))
    sys.stdout.flush()
    os._exit(code)  # threads of what was imported may never end
