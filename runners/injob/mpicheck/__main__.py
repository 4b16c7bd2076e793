"""Entry point: `python3 RUN/code/mpicheck --launcher LAUNCHER --run-dir RUN`."""

import importlib
import os
import sys

if __name__ == "__main__":
    folder = os.path.dirname(os.path.abspath(__file__))
    # Python put this folder first on the path; the shim's package `rank` is beside it.
    sys.path[0] = os.path.dirname(folder)
    main = importlib.import_module(os.path.basename(folder) + ".start").main
    sys.exit(main(sys.argv[1:]))
