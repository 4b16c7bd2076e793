"""What runs within a job: each folder is copied into the run's folder alone, standard library only.

The host side imports from these folders what both must agree on: exit codes, records, parsers.
"""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent
RANK = HERE / "rank"  # around each trainer, one process per task
STAGE = HERE / "stage"  # data and image onto a node's own disk
MPICHECK = HERE / "mpicheck"  # the host's MPI in the image, before the job proper
TRIAL = HERE / "trial"  # the doctor's short job
SERVE = HERE / "serve"  # JupyterLab and TensorBoard behind a token
