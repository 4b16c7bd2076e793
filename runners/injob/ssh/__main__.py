"""Entry point: `python3 RUN/code/injob/ssh (around | ask) ...`.

around RUNTIME NODE,... ENTER STEP... -- COMMAND...   runs COMMAND, for which `ssh NODE ...` works
ask SOCKET ...                                that ssh, with the arguments of ssh(1)
"""

import importlib
import os
import sys

if __name__ == "__main__":
    # Python put this folder first on the path; its modules know each other as a package.
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    end = importlib.import_module(f"injob.ssh.{sys.argv[1]}")
    sys.exit(end.main(sys.argv[2:]))
