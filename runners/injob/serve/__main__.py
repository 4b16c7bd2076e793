"""Entry point: `python3 RUN/code/serve (jupyter | tensorboard) PRIVATE FOLDER [options]`."""

import importlib
import os
import sys

if __name__ == "__main__":
    folder = os.path.dirname(os.path.abspath(__file__))
    # Python put this folder first on the path, where `tensorboard` is ours and not the real one.
    sys.path[0] = os.path.dirname(folder)
    start = importlib.import_module(os.path.basename(folder) + ".start")
    sys.exit(start.main(sys.argv[1:]))
