"""The parts of what runs in a job: the first argument of `python3 RUN/code/injob`."""

RANK, MPICHECK, SAMPLE, RAS = "rank", "mpicheck", "sample", "ras"
STAGE, SERVE = "stage", "serve"
AROUND, TIDY = "around", "tidy"
SSH_AROUND, SSH_ASK = "ssh-around", "ssh-ask"
TRIAL = "injob.injob.trial"  # the module that a rank of the doctor's job runs
# MPI asks hwloc for the node's devices, and hwloc each X display, at 127.0.0.1:6000, where any user
# of the node may listen (hwloc's manual, "Components and plugins").
NO_DISPLAY = ("HWLOC_COMPONENTS", "-gl")
