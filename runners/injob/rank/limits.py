"""A rank's limits: open files, since Gloo connects it with each other rank, and core files."""

from __future__ import annotations

import resource

# Horovod's Gloo connects each pair for its world and again for its set of all processes, so a rank
# needs twice as many as there are ranks; rank 0's shim has a connection from each. The spare ones
# are the trainer's, for whom the usual limit was enough.
FOR_EACH_RANK, SPARE = 2, 1024


def allow_files(ranks: int) -> None:
    """Raise the soft limit to what so many ranks need, as far as the hard one lets it.

    It comes from the login node with the job (PropagateResourceLimits), and is 1,024 on most.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = FOR_EACH_RANK * ranks + SPARE
    if hard != resource.RLIM_INFINITY:
        needed = min(needed, hard)
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def no_core_files() -> None:
    """Let a crash leave no file, as large as the rank's memory and with all secrets in it.

    Only the soft limit: the trainer may raise it.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
