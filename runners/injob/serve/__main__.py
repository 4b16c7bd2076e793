"""Entry point: `python3 RUN/code/injob/serve (jupyter | tensorboard) PRIVATE FOLDER [options]`."""

import importlib
import os
import sys

if __name__ == "__main__":
    # Python put this folder first on the path, where `tensorboard` is ours and not the real one.
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    start = importlib.import_module("injob.serve.start")
    sys.exit(start.main(sys.argv[1:]))
