"""A request in the site's own form, and the site's variables for it. Pure."""

from __future__ import annotations

from dataclasses import replace

from ..core import gpus
from ..core.model import Choice, JobSpec, Variable
from ..core.site_profile import Profile
from . import site_limits


def adapt(spec: JobSpec, profile: Profile) -> tuple[JobSpec, tuple[Choice, ...]]:
    """Return the request with GPUs asked for as this site wants it, and why, if that changed it."""
    form, old = profile.rules.gpu_request, spec.resources
    asked = gpus.on_a_node(old)
    there = {"gres": bool(gpus.in_gres(old.gres)), "gpus-per-node": bool(old.gpus_per_node)}
    if not asked or not form or there[form] or site_limits.shares(spec.resources):
        return spec, ()
    count = ":".join(filter(None, (asked[0], str(asked[1]))))
    others = [part for part in (old.gres or "").split(",") if part and part.split(":")[0] != "gpu"]
    new = replace(old, gpus=None, gpus_per_node=None, gpus_per_task=None, gres=None)
    if form == "gres":
        new = replace(new, gres=",".join([*others, f"gpu:{count}"]))
    else:
        new = replace(new, gpus_per_node=count, gres=",".join(others) or None)
    evidence = site_limits.because(profile, "rules.gpu_request")
    reason = f"how {profile.name} is asked for GPUs"
    choice = Choice("gpu-request", f"--{form}={new.gres or count}", reason, evidence)
    return replace(spec, resources=new), (choice,)


def variables(spec: JobSpec, profile: Profile) -> tuple[Variable, ...]:
    """Return the site's variables for this job; the user's own win over them."""
    tables = {"env": profile.env}
    if spec.resources.nodes > 1:
        tables["env_several_nodes"] = profile.env_several_nodes
    found = [
        Variable(name, value, f"{profile.name}: {site_limits.because(profile, f'{table}.{name}')}")
        for table, values in tables.items()
        for name, value in values.items()
    ]
    name = "CUDA_VISIBLE_DEVICES"
    if profile.gpu_order and _takes_all(spec, profile) and name not in dict(spec.env):
        reason = site_limits.because(profile, "gpu_order", "GPUs in the order of the ranks' CPUs")
        # Forced: what a job finds in this variable is the scheduler's, not the user's.
        found.append(Variable(name, profile.gpu_order, reason, "image", forced=True))
    return tuple(found)


def _takes_all(spec: JobSpec, profile: Profile) -> bool:
    asked, kinds = gpus.on_a_node(spec.resources), site_limits.node_kinds(spec, profile)
    listed = len(profile.gpu_order.split(","))
    whole = bool(kinds) and all(kind.gpus == listed for kind in kinds)
    return whole and asked is not None and asked[1] == listed and not spec.resources.gpus_per_task
