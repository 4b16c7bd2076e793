"""Entry point: `python3 RUN/code/injob/serve (jupyter | tensorboard) PRIVATE FOLDER [options]`."""

import importlib
import os
import sys

if __name__ == "__main__":
    parent, name = os.path.split(os.path.dirname(os.path.abspath(__file__)))
    # Python put this folder first on the path, where `tensorboard` is ours and not the real one.
    sys.path[0], package = os.path.split(parent)
    start = importlib.import_module(f"{package}.{name}.start")
    sys.exit(start.main(sys.argv[1:]))
