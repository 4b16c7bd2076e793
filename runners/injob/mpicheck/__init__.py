"""Runs inside the image as each rank, before the job proper: is the host's MPI what is found?

Standard library only and Python 3.8 at least, as the shim, beside which it lies.
"""

EXIT_HOST_MPI = 90
