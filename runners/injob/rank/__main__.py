"""Entry point: `python3 RUN/code/injob/rank [options] -- (-m MODULE | FILE.py) [ARGUMENT]...`."""

import importlib
import os
import sys

if __name__ == "__main__":
    # Python put this folder first on the path, where names such as `task` would hide the user's.
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    start = importlib.import_module("injob.rank.start")
    del sys.path[0]
    sys.exit(start.main(sys.argv[1:]))
