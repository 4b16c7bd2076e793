"""What to look at when Slurm refuses a job, by the words in which it does. Pure.

The words are those of slurm_errno.c, the same from Slurm 22.05 to 26.05, and sbatch's own.
"""

from __future__ import annotations

MINE = "sacctmgr show associations user=$USER format=account%20,partition%20,qos%40"
KINDS = "sinfo --exact --format='%P %D %c %m %G %f'"
LOOK = (
    ("invalid partition", "sinfo --summarize"),
    ("partition name", "sinfo --summarize"),
    ("time limit", "sinfo --format='%P %l'"),
    ("account", MINE),
    ("invalid qos", MINE),
    ("qos policy", "sacctmgr show qos format=name,maxwall,maxtrespu,maxjobspu,maxsubmitpu"),
    ("dependency", "squeue --me"),
    ("reservation", "scontrol show reservations"),
    ("memory specification", KINDS),
    ("node configuration", KINDS),
    ("node count", KINDS),
    ("cpu count", KINDS),
    ("processors", KINDS),
    ("feature", KINDS),
    ("generic resource", KINDS),
    ("(gres)", KINDS),
    ("node name", "sinfo --Node"),
)


def look(said: str) -> str:
    """Return the command that shows what there is instead; "" for a refusal of another kind."""
    words = said.lower()
    return next((command for part, command in LOOK if part in words), "")
