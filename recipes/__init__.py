"""The packaged trainers. Each is one file: `torch_mnist.py`, `tf_mnist.py`, `torch_lm.py`.

This package knows nothing of Slurm, Apptainer or the `runner` command, and importing it
imports nothing but the standard library.
"""

import time

#: When this process began to import its trainer, in Unix seconds: start-up is counted from here.
IMPORTED_UNIX_TIME = time.time()
