"""What runs within a job: copied into the run's folder, standard library only.

The host side imports from here what both must agree on: exit codes, records, parsers, and the
parts that `__main__` starts.
"""

import os

HERE = os.path.dirname(os.path.abspath(__file__))
# The first argument of `python3 RUN/code/injob`
RANK, MPICHECK, SAMPLE, RAS = "rank", "mpicheck", "sample", "ras"
STAGE, SERVE = "stage", "serve"
AROUND, TIDY = "around", "tidy"
# MPI asks hwloc for the node's devices, and hwloc each X display, at 127.0.0.1:6000, where any user
# of the node may listen (hwloc's manual, "Components and plugins").
NO_DISPLAY = ("HWLOC_COMPONENTS", "-gl")
TEMPORARY_KEY = "code/temporary-key"  # below the run's folder
SSH_AROUND, SSH_ASK = "ssh-around", "ssh-ask"
TRIAL = "trial"  # the module that a rank of the doctor's job runs
