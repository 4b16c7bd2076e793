"""A request seen from a site: which kinds of nodes it can get. Pure."""

from __future__ import annotations

import re

from ..core import gpus
from ..core.model import JobSpec
from ..core.site_profile import NodeKind, Profile


def kinds(spec: JobSpec, profile: Profile) -> tuple[NodeKind, ...]:
    """Return the kinds of nodes that the job can get: by type of GPU, partition or constraint.

    Empty when the profile does not know. A site with nodes of one kind has no choice.
    """
    if len(profile.nodes) == 1:
        return profile.nodes
    asked = gpus.on_a_node(spec.resources)
    typed = [kind for kind in profile.nodes if asked and same_type(kind.gpu_type, asked[0])]
    there = typed or list(profile.nodes)
    words = re.split(r"[&|,*()\[\]]", spec.resources.constraint or "")
    named = [kind for kind in there if kind.name in (spec.resources.partition, *words)]
    return tuple(named or typed)


def same_type(one: str, other: str) -> bool:
    """Whether two names of GPU types, neither empty, are the same; Slurm ignores the case."""
    return bool(one) and one.lower() == other.lower()
