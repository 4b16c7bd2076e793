"""Entry point: `python3 RUN/code/stage hold|room|copy|check ...`."""

import importlib
import os
import sys

if __name__ == "__main__":
    folder = os.path.dirname(os.path.abspath(__file__))
    # Python put this folder first on the path; its modules know each other as a package.
    sys.path[0] = os.path.dirname(folder)
    start = importlib.import_module(os.path.basename(folder) + ".start")
    sys.exit(start.main(sys.argv[1:]))
