"""The packaged trainers. Each is one file: `torch_mnist.py`, `tf_mnist.py`, `torch_lm.py`.

This package knows nothing of Slurm, Apptainer or the `runner` command, and importing it
imports nothing but the standard library.
"""

import time

__version__ = "0.1.0"  # the project's; an image holds this package without its metadata

#: When this process began to import its trainer, in Unix seconds: start-up is counted from here.
IMPORTED_UNIX_TIME = time.time()
