"""Entry point: `python3 RUN/rank [options] -- (-m MODULE | FILE.py) [trainer arguments]`."""

import importlib
import os
import sys

if __name__ == "__main__":
    folder = os.path.dirname(os.path.abspath(__file__))
    # Python put this folder first on the path, where names such as `task` would hide the user's.
    sys.path[0] = os.path.dirname(folder)
    start = importlib.import_module(os.path.basename(folder) + ".start")
    del sys.path[0]
    sys.exit(start.main(sys.argv[1:]))
