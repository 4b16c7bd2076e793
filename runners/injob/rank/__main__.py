"""Entry point: `python3 RUN/code/injob/rank [options] -- (-m MODULE | FILE.py) [ARGUMENT]...`."""

import importlib
import os
import sys

if __name__ == "__main__":
    parent, name = os.path.split(os.path.dirname(os.path.abspath(__file__)))
    # Python put this folder first on the path, where names such as `task` would hide the user's.
    sys.path[0], package = os.path.split(parent)
    start = importlib.import_module(f"{package}.{name}.start")
    del sys.path[0]
    sys.exit(start.main(sys.argv[1:]))
