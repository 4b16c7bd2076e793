"""The packaged trainers, each in a file: `torch_mnist.py`, `tf_mnist.py`, `torch_lm.py`.

They stand on `distributed.py` (ranks, samples, rates) and `run.py` (checkpoint, stop, metrics);
`runner recipes copy` copies a trainer with what it imports. This package knows nothing of Slurm,
Apptainer or the `runner` command, and importing it imports nothing.
"""

__version__ = "0.1.0"  # the project's; an image holds this package without its metadata
