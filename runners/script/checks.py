"""What a job checks on its nodes before it trains: the image's digest, the host's MPI. Pure."""

from __future__ import annotations

import shlex

from ..core.job_record import JobPaths
from ..core.model import Plan
from ..injob.mpicheck import EXIT_HOST_MPI
from . import ranks

EXIT_NOT_VERIFIED = 81


def image(plan: Plan) -> list[str]:
    """Return the check that the image is still the file that the policy allowed.

    Of a staged one each node checks its own copy (injob/stage).
    """
    if not plan.verified_digest or plan.image_form:
        return []
    file, digest = shlex.quote(str(plan.spec.image)), plan.verified_digest.partition(":")[2]
    return [
        f'if [ "$(sha256sum < {file})" != "{digest}  -" ]; then',
        f"  echo runner: {file} is no longer the file that the policy allowed >&2",
        f"  exit {EXIT_NOT_VERIFIED}",
        "fi",
    ]


def host_mpi(plan: Plan, paths: JobPaths) -> list[str]:
    """Return the check that the ranks find the host's MPI in the image, and each other by it."""
    if plan.host_mpi is None:
        return []
    return [
        "# The host's MPI in the image, before the job proper: found, complete, and one world.",
        ranks.check_of_host_mpi(plan, paths) + " || {",
        '  echo "runner: the check of the host\'s MPI in the image failed, exit code $?" >&2',
        f"  exit {EXIT_HOST_MPI}",
        "}",
    ]
