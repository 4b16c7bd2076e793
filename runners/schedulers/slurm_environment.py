"""The environment in which Slurm's commands are called."""

from __future__ import annotations

from collections.abc import Mapping

# These two reach sbatch although all else of Slurm's is removed: they say which cluster it is.
KEPT = ("SLURM_CONF", "SLURM_CLUSTERS")


def scrubbed(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without what a surrounding job, or SBATCH_*, would tell sbatch."""
    told = ("SLURM_", "SBATCH_", "SRUN_", "PMI_", "PMIX_")
    return {
        name: value
        for name, value in env.items()
        # PMIX_MCA_* are the user's settings, which no job makes.
        if name in KEPT or name.startswith("PMIX_MCA_") or not name.startswith(told)
    }
