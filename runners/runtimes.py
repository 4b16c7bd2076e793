"""Container runtimes: Plan -> the tokens and variables that put a command into the image."""

from __future__ import annotations

import csv
import io

from .model import BindMount, Plan

# The prefix under which each runtime takes variables that shall win over the image's own.
ENV_PREFIX = {"apptainer": "APPTAINERENV_", "singularity": "SINGULARITYENV_"}


def exec_argv(plan: Plan, run_dir: str) -> list[str]:
    """Return `apptainer exec ... IMAGE`; Singularity 3.8 and newer takes the same words."""
    argv = [plan.runtime, "exec"]
    if plan.nv:
        argv.append("--nv")
    for bind in (*plan.binds, BindMount(run_dir, run_dir)):
        argv += bind_argv(bind)
    return [*argv, *plan.spec.apptainer_args, str(plan.spec.image)]


def bind_argv(bind: BindMount) -> list[str]:
    """Return the option for one mount; paths with `,` or `:` need --mount, which reads CSV."""
    mode = ":ro" if bind.read_only else ""
    if not any(char in bind.source + bind.target for char in ',:"\n'):
        return ["--bind", f"{bind.source}:{bind.target}{mode}"]
    fields = ["type=bind", f"source={bind.source}", f"destination={bind.target}"]
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(fields + (["ro"] if bind.read_only else []))
    return ["--mount", text.getvalue()]
