"""What Slurm sets for the last task of four: three on n1, and this one on n2."""

SRUN = {
    "SLURM_PROCID": "3",
    "SLURM_NTASKS": "4",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "1",
    "SLURM_TASKS_PER_NODE": "3,1",
    "SLURM_JOB_NODELIST": "n[1-2]",
    "SLURM_JOB_ID": "42",
    "SLURM_STEP_ID": "0",
    "SLURMD_NODENAME": "n2",
}
FIRST = {**SRUN, "SLURM_PROCID": "0"}
