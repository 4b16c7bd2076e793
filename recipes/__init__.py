"""The packaged trainers, each in a file: `torch_mnist.py`, `tf_mnist.py`, `torch_lm.py`.

What they share is in `run.py` and beside it; `runner recipes copy` copies a trainer with what it
imports. This package knows nothing of Slurm, Apptainer or the `runner` command, and importing it
imports nothing.
"""

__version__ = "0.1.0"  # the project's; an image holds this package without its metadata
