"""The entry point of what runs within a job: `python3 RUN/code/injob PART ...`.

rank [OPTION]... -- (-m MODULE | FILE.py | PROGRAM) [ARGUMENT]...   a rank, around its trainer
mpicheck LAUNCHER RUN                                      a rank of the check of the host's MPI
sample RUN                                                 what the ranks of this node do now
ras PORT...                                                what NCCL knows of the job's ranks
stage hold|room|copy|... < FOLDER                          data and image onto a node's own disk
serve (jupyter | tensorboard) PRIVATE FOLDER OWN HOST      a web server behind a token
around COMMAND...                              COMMAND, with a temporary folder of its own
tidy                                           removes those that killed ranks have left
ssh-around RUNTIME NODE,... ENTER STEP... -- COMMAND...    COMMAND, for which `ssh NODE ...` works
ssh-ask SOCKET ...                                         that ssh, with the arguments of ssh(1)

It runs with Python 3.6, which a node's own may be. Only the modules of the part are loaded.
"""

import importlib
import os
import sys

STARTS = {  # module and function
    "rank": ("rank.start", "main"),
    "mpicheck": ("mpi_check", "main"),
    "sample": ("sample_ranks", "main"),
    "ras": ("sample_ranks", "ras"),
    "stage": ("stage.job_folder", "main"),
    "serve": ("serve.run_server", "main"),
    "around": ("temporary", "around"),
    "tidy": ("temporary", "tidy"),
    "ssh-around": ("ssh", "around"),
    "ssh-ask": ("ssh", "ask"),
}

if __name__ == "__main__":
    # Python put this folder first on the path, where names such as `processes` would hide the
    # user's; its modules know each other as a package.
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    module, start = STARTS[sys.argv[1]]
    part = importlib.import_module(f"injob.injob.{module}")
    del sys.path[0]
    sys.exit(getattr(part, start)(sys.argv[2:]))
