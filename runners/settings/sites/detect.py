"""Which site this machine is at: asks it for the names that `find` compares."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Mapping

from ...core import shell
from ...core.site_profile import Profile
from ...schedulers import slurm_facts
from .. import config
from . import find

SECONDS = 10.0


def profile(env: Mapping[str, str]) -> tuple[Profile | None, str]:
    """Return the profile in force here, by the setting `site` or else by this machine's names.

    With it goes what could not be asked, "" when all could.
    """
    name = config.load({}, env).get("site")
    known, problem = ("", "") if name else cluster(env)
    return find.find(name, known, socket.gethostname(), env), problem


def cluster(env: Mapping[str, str]) -> tuple[str, str]:
    """Return the Slurm cluster's name for itself, and why it is not known; both may be ""."""
    if not shutil.which("scontrol"):
        return env.get("SLURM_CLUSTER_NAME", ""), ""
    answer = shell.together([slurm_facts.CONFIG], SECONDS)[0]
    found = slurm_facts.parse_config(answer.out).get("ClusterName", "")
    said = (answer.err or answer.out).strip().partition("\n")[0]
    return found, "" if found else f"scontrol did not tell the cluster's name: {said}"
