"""Which site this machine is at: asks it for the names that `find` compares."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Mapping

from .. import config, shell
from ..schedulers import slurm_facts
from . import find
from .profile import Profile

SECONDS = 10.0


def profile(env: Mapping[str, str] | None = None) -> Profile | None:
    """Return the profile in force here, by the setting `site` or else by this machine's names."""
    env = os.environ if env is None else env
    name = config.load({}, env).get("site")
    return find.find(name, "" if name else cluster(env), socket.gethostname(), env)


def cluster(env: Mapping[str, str]) -> str:
    """Return the Slurm cluster's name for itself; "" without Slurm, or when it does not answer."""
    if not shutil.which("scontrol"):
        return env.get("SLURM_CLUSTER_NAME", "")
    answer = shell.together([slurm_facts.CONFIG], SECONDS)[0]
    return slurm_facts.parse_config(answer.out).get("ClusterName", "")
