"""Entry point: `python3 RUN/code/injob/stage hold|room|copy|... < FOLDER`."""

import importlib
import os
import sys

if __name__ == "__main__":
    # Python put this folder first on the path; its modules know each other as a package.
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    start = importlib.import_module("injob.stage.start")
    sys.exit(start.main(sys.argv[1:]))
