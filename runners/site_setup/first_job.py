"""The first job of a site's users: what its profile asks of one, as options. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..core.remedy import LAUNCH, Value
from ..core.site_profile import NodeKind, Profile
from ..plan import site_rules

TRAINER, FRAMEWORK = "torch_mnist", "pytorch"
SIF = ("apptainer", "singularity")
Options = tuple[tuple[str, Value], ...]


@dataclass(frozen=True)
class FirstJob:
    """`gpus` says whether it has some; `image` is what --image is given.

    `blanks` names the options whose values, in capitals, each user has to fill in.
    """

    image: str
    options: Options
    gpus: bool
    blanks: tuple[str, ...]


def first_job(profile: Profile) -> FirstJob:
    """Return a job over two nodes that the site takes, with all GPUs of each where it has some."""
    wanted = dict(_required(profile, gpus=False))
    kind = _kind(profile, wanted)
    gpus = bool(kind and kind.gpus) or "gpus-per-node" in profile.launch
    wanted = dict(_required(profile, gpus))
    if kind and kind.gpus and "gpus-per-node" not in profile.launch:
        count = f"{kind.gpu_type}:{kind.gpus}" if profile.rules.gpu_type else str(kind.gpus)
        wanted = {"gpus-per-node": count, **wanted}
    blanks = tuple(name for name, value in wanted.items() if name.upper() in str(value))
    return FirstJob(_image(profile, gpus), (("nodes", 2), *wanted.items()), gpus, blanks)


def takes_sif(profile: Profile) -> bool:
    """Whether one of the site's runtimes runs the files that `runner build` makes."""
    return not profile.runtimes or bool(set(SIF) & set(profile.runtimes))


def _image(profile: Profile, gpus: bool) -> str:
    name = "horovod_gpu" if gpus else "horovod_cpu"
    return f"{name}.sif" if takes_sif(profile) else f"registry.example.org/TEAM/{name}:1"


def _required(profile: Profile, gpus: bool) -> Iterator[tuple[str, Value]]:
    """Yield the options without which the site takes no job, as its remedies type them."""
    for setting, rule in profile.rules.require.items():
        if rule.optional or (rule.gpus_only and not gpus) or setting in profile.launch:
            continue
        blank = setting.upper()
        remedy = site_rules.remedy(setting, rule, blank, FRAMEWORK)
        yield from remedy.options if remedy.kind == LAUNCH else ((setting, blank),)


def _kind(profile: Profile, wanted: dict[str, Value]) -> NodeKind | None:
    """Return the nodes of the first job: those that it names, else ones with GPUs if all have."""
    resources = {**profile.launch, **wanted}
    asked = (resources.get("partition"), resources.get("constraint"))
    named = [kind for kind in profile.nodes if _is_of(kind, asked)]
    with_gpus = [kind for kind in named or profile.nodes if kind.gpus]
    if named:
        return (with_gpus or named)[0]
    return with_gpus[0] if profile.nodes and len(with_gpus) == len(profile.nodes) else None


def _is_of(kind: NodeKind, asked: tuple[Value | None, ...]) -> bool:
    # `runner sites new` names the kinds of nodes of one partition PARTITION-TYPE-COUNT.
    return any(name and (kind.name == name or kind.name.startswith(f"{name}-")) for name in asked)
