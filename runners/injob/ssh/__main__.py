"""Entry point: `python3 RUN/code/injob/ssh (around | ask) ...`."""

import importlib
import os
import sys

if __name__ == "__main__":
    parent, name = os.path.split(os.path.dirname(os.path.abspath(__file__)))
    # Python put this folder first on the path; its modules know each other as a package.
    sys.path[0], package = os.path.split(parent)
    start = importlib.import_module(f"{package}.{name}.start")
    sys.exit(start.main(sys.argv[1:]))
