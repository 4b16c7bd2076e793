"""Runtimes that are options of srun, which stand after its others. Rendered, not run here.

Pyxis, NVIDIA's plugin for Slurm, from its README (github.com/NVIDIA/pyxis): the job's environment
goes into the container, below the image's own variables; those named in --container-env win over
both. Enroot writes a registry's name as REGISTRY#IMAGE:TAG; an image may also be a .sqsh file.

The Container Engine of CSCS (Alps), from its manual (docs.cscs.ch, software/container-engine): a
file names image, mounts, folder and variables, in which ${NAME} is the host's; a mount's flags
stand apart by +.

Slurm's own --container, from its manual (slurm.schedmd.com/containers.html): the image is a folder
with an OCI bundle on each node, whose config.json alone says what is mounted; the site's oci.conf
says what runs it.
"""

from __future__ import annotations

import json

from ...core.tokens import Expanded
from .base import Container, volume

ENVIRONMENT = "code/environment.toml"


def pyxis(container: Container) -> list[str]:
    plan = container.plan
    names = ",".join([*container.fixed, *(name for name, _ in plan.spec.env)])
    return [
        f"--container-image={enroot_name(str(plan.spec.image))}",
        f"--container-mounts={','.join(map(volume, container.binds))}",
        Expanded("--container-workdir=$PWD"),
        f"--container-env={names}",
        *container.own_arguments,
    ]


def enroot_name(image: str) -> str:
    """Return the name as Enroot wants it: a registry's host apart from the rest by #."""
    host, slash, rest = image.partition("/")
    is_host = bool(slash) and bool(host) and "#" not in image and any(c in host[1:] for c in ".:")
    return f"{host}#{rest}" if is_host else image


def container_engine(container: Container) -> list[str]:
    return [Expanded(f"--environment=$run/{ENVIRONMENT}"), *container.own_arguments]


def environment(container: Container) -> str:
    """Return the environment definition file; the strings of JSON are strings of TOML too."""
    lines = [
        f"image = {json.dumps(enroot_name(str(container.plan.spec.image)))}",
        f"mounts = {json.dumps([volume(bind) for bind in container.binds])}",
        'workdir = "${PWD}"',
        "",
        "[env]",
    ]
    return "\n".join([*lines, *(f'{name} = "${{{name}}}"' for name in container.names), ""])


def oci_bundle(container: Container) -> list[str]:
    return [f"--container={container.plan.spec.image}", *container.own_arguments]
