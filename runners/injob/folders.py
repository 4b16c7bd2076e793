"""Where the parts of this package lie, for those who copy them into a run's folder."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent
RANK = HERE / "rank"  # around each trainer, one process per task
STAGE = HERE / "stage"  # data and image onto a node's own disk
MPICHECK = HERE / "mpicheck"  # the host's MPI in the image, before the job proper
TRIAL = HERE / "trial"  # the doctor's short job
SSH = HERE / "ssh"  # from a container to the other nodes of its job
SERVE = HERE / "serve"  # JupyterLab and TensorBoard behind a token


def of_a_job(*parts: Path) -> list[Path]:
    """Return what a job takes along: the modules that all parts share, and the parts."""
    return [*HERE.glob("*.py"), *parts]
