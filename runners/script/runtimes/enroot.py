"""Enroot without pyxis: `enroot start IMAGE.sqsh`, by each rank. Rendered, not run here.

From its manual (github.com/NVIDIA/enroot, doc/cmd/start.md): a configuration script says what of
the host's environment goes into the container, what is mounted, and what starts the command.
"""

from __future__ import annotations

from ...core import tokens
from ...core.model import BindMount
from ...core.tokens import Expanded
from .base import Container

FILE = "code/enroot.conf"
CONFIGURATION = """\
# The job's variables, each rank's among them; what is mounted; the command as it is.
environ() {{ env; }}
mounts() {{
{mounts}
}}
rc() {{ exec "$@"; }}
"""
THERE = 'cd -- "$0" && exec "$@"'


def argv(container: Container) -> list[str]:
    """Return enroot start; the command starts in the job's folder."""
    command = ["enroot", "start", "--conf", Expanded(f"$run/{FILE}"), *container.own_arguments]
    return [*command, str(container.plan.spec.image), "sh", "-c", THERE, Expanded("$PWD")]


def configuration(container: Container) -> str:
    lines = [f"  echo {tokens.quote(_mount(bind))}" for bind in container.binds]
    return CONFIGURATION.format(mounts="\n".join(lines))


def _mount(bind: BindMount) -> str:
    """Return a line of fstab; limits.py refuses paths with what stands between its fields."""
    options = "x-create=auto,rbind" + (",ro" if bind.read_only else "")
    return f"{bind.source} {bind.target} none {options}"
