"""What is told of schedulers by their names alone."""

from __future__ import annotations

# The command that submits, by which a scheduler is known to be here.
COMMANDS = {"slurm": "sbatch", "pbs": "qsub", "cobalt": "cqsub"}
HERE = ("local", "allocation")  # their jobs are processes of this machine: nothing is submitted
