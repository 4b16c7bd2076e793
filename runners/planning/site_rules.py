"""The rules of a site: refusals, its form of GPU requests, and its variables. Pure."""

from __future__ import annotations

import os
import re
from dataclasses import replace

from ..core import gpus
from ..core.model import JobSpec, Resources
from ..core.plan import ChoiceId, Variable, Where
from ..core.remedy import Remedy, advice, change
from ..core.site import GpuRequest, Profile, Requirement, Site, expanded
from ..core.trainer import Framework
from ..schedulers import capabilities
from ..settings.table import SETTINGS
from . import site_limits
from .case import DecisionLog, JobResources

# One rule against --mem is meant against all of its kind.
KIN = {"mem": ("mem", "mem-per-cpu", "mem-per-gpu")}
# What a profile may give as its remedy, such as `--comment {framework}`
OPTION = re.compile(r"--([a-z-]+)[ =](\S+)")
BLANK = re.compile(r"\{(framework|value)\}")


def check(
    spec: JobSpec, resources: JobResources, site: Site, profile: Profile, log: DecisionLog
) -> None:
    """Record what this site refuses in a job, and what the user should know.

    The user's variables fill in the $NAMEs in the site's folders.
    """
    if spec.scheduler and not capabilities(spec.scheduler).queue:
        return  # what is not submitted is none of the scheduler's business
    _required(spec, resources, profile, log)
    _forbidden(spec, resources, profile, log)
    if not site.remote_site:
        _folders(spec, profile, site, log)
    site_limits.check(spec, resources, profile, site.remote_site, log)


def _required(spec: JobSpec, resources: JobResources, profile: Profile, log: DecisionLog) -> None:
    for setting, rule in profile.rules.require.items():
        if rule.gpus_only and not _on_gpu_nodes(resources, profile):
            continue
        value = given(spec, resources, setting)
        evidence = site_limits.because(profile, f"rules.require.{setting}", rule.reason)
        if not value:
            what = f"{profile.name} requires --{setting}"
        elif rule.pattern and not re.fullmatch(rule.pattern, value):
            what = f"{profile.name} does not accept --{setting} {value}"
        else:
            continue
        log.refuse(
            "site-setting", what, evidence, remedy(setting, rule, value, spec.trainer.requires)
        )


def _on_gpu_nodes(resources: JobResources, profile: Profile) -> bool:
    kinds = site_limits.node_kinds(resources, profile)
    return resources.wants_gpus or (bool(kinds) and all(kind.gpus for kind in kinds))


def remedy(setting: str, rule: Requirement, value: str, framework: Framework | None) -> Remedy:
    """Return the profile's remedy: options as they are typed, else advice.

    `value` is what was given for the setting, `framework` what the trainer needs.
    """
    typed = rule.remedy or f"--{setting} {setting.upper()}"
    options = dict(OPTION.findall(typed))
    if not all(name in SETTINGS for name in options) or OPTION.sub("", typed).strip():
        return advice(typed)
    filled = {"framework": framework or Framework.PYTORCH, "value": value}
    return change({name: BLANK.sub(lambda m: filled[m[1]], text) for name, text in options.items()})


def given(spec: JobSpec, resources: JobResources, setting: str) -> str:
    """Return the value of a setting of sbatch's, also when it came through --sbatch-arg."""
    value = getattr(resources, setting.replace("-", "_"), None)
    if value not in (None, False):
        return str(value)
    for position, argument in enumerate(spec.sbatch_args):
        name, equals, text = argument.partition("=")
        if name == f"--{setting}":
            return text if equals else " ".join(spec.sbatch_args[position + 1 : position + 2])
    return ""


def _forbidden(spec: JobSpec, resources: JobResources, profile: Profile, log: DecisionLog) -> None:
    for setting, reason in profile.rules.forbid.items():
        for name in KIN.get(setting, (setting,)):
            if given(spec, resources, name):
                evidence = site_limits.because(profile, f"rules.forbid.{setting}", reason)
                what = f"{profile.name} does not accept jobs with --{name}"
                log.refuse("site-forbids", what, evidence, _without(spec, name))


def _without(spec: JobSpec, name: str) -> Remedy:
    """Return the remedy that takes a setting away, also from among the --sbatch-arg."""
    args = [text for text in spec.sbatch_args if text.partition("=")[0] != f"--{name}"]
    if len(args) == len(spec.sbatch_args):
        return change(leave_out=[name])
    return change(sbatch_arg=args, leave_out=["sbatch-arg"])


def _folders(spec: JobSpec, profile: Profile, site: Site, log: DecisionLog) -> None:
    cwd, env = site.cwd, site.environment
    allowed = [expanded(folder, env) for folder in profile.rules.submit_below]
    if not allowed:
        return
    evidence = site_limits.because(
        profile, "rules.submit_below", f"only below {', '.join(allowed)}"
    )
    # A shell keeps in PWD the name by which a folder was entered, links and all.
    if not any(_below(folder, allowed) for folder in (cwd, env.get("PWD", cwd))):
        what = f"{profile.name} does not accept jobs submitted from {cwd}"
        log.refuse("site-submit-folder", what, evidence, change(cwd=allowed[0]))
    elif not _below(str(spec.runs_dir), [*allowed, cwd]):
        what = f"the run's folder would be outside, in {spec.runs_dir}"
        log.refuse("site-runs-folder", what, evidence, change(runs_dir=f"{allowed[0]}/runs"))


def _below(folder: str, tops: list[str]) -> bool:
    path = os.path.normpath(folder)
    return any(path == top or path.startswith(top.rstrip("/") + "/") for top in tops)


def in_sites_gpu_form(resources: Resources, profile: Profile, log: DecisionLog) -> Resources:
    """Return what is asked for, with GPUs in the form that this site wants."""
    form, old = profile.rules.gpu_request, resources
    requested = gpus.on_a_node(old)
    requests = {
        GpuRequest.GRES: bool(gpus.in_gres(old.gres)),
        GpuRequest.GPUS_PER_NODE: bool(old.gpus_per_node),
    }
    if not requested or not form or requests[form]:
        return old
    count = gpus.request(*requested)
    others = [part for part in (old.gres or "").split(",") if part and part.split(":")[0] != "gpu"]
    new = replace(old, gpus=None, gpus_per_node=None, gpus_per_task=None, gres=None)
    if form is GpuRequest.GRES:
        new = replace(new, gres=",".join([*others, f"gpu:{count}"]))
    else:
        new = replace(new, gpus_per_node=count, gres=",".join(others) or None)
    evidence = site_limits.because(profile, "rules.gpu_request")
    reason = f"the form of GPU requests on {profile.name}"
    log.choose(ChoiceId.GPU_REQUEST, f"--{form}={new.gres or count}", reason, evidence)
    return new


def variables(spec: JobSpec, resources: JobResources, profile: Profile) -> tuple[Variable, ...]:
    """Return the site's variables for this job; the user's own win over them."""
    tables = {"env": profile.env}
    if resources.nodes > 1:
        tables["env_several_nodes"] = profile.env_several_nodes
    site_variables = [
        Variable(name, value, f"{profile.name}: {site_limits.because(profile, f'{table}.{name}')}")
        for table, values in tables.items()
        for name, value in values.items()
    ]
    name = "CUDA_VISIBLE_DEVICES"
    if profile.gpu_order and _takes_all(resources, profile) and name not in dict(spec.env):
        reason = site_limits.because(profile, "gpu_order", "GPUs in the order of the ranks' CPUs")
        # Forced: what a job finds in this variable is the scheduler's, not the user's.
        site_variables.append(
            Variable(name, profile.gpu_order, reason, Where.CONTAINER, forced=True)
        )
    return tuple(site_variables)


def _takes_all(resources: JobResources, profile: Profile) -> bool:
    listed = len(profile.gpu_order.split(","))
    requested, kinds = gpus.on_a_node(resources), site_limits.node_kinds(resources, profile)
    if not requested or requested[1] != listed or resources.gpus_per_task:
        return False
    return bool(kinds) and all(kind.gpus == listed for kind in kinds)
