"""The part of a job's script that stages its data and its image. Pure: plan in, lines out.

`hold` runs beside the training on each node and removes what was staged when the script, at its
end, closes the pipe that it reads. A step of its own for that could not be: Slurm starts none in a
job that is being cancelled, and kills what runs after KillWait seconds. What then stays the next
job of the same user removes.
"""

from __future__ import annotations

from pathlib import Path

from ..contract.parts import STAGE
from ..core.job_record import JobPaths
from ..core.model import ImageAccess
from ..core.plan import Plan
from ..core.quoting import Expanded, quote
from ..runtimes.command_lines import STAGED_FILE, STAGED_FOLDER
from ..schedulers import SCHEDULERS, capabilities

# Slurm's plugins and sites set these in a job; a profile's own folder comes before them.
SCRATCH = "${SLURM_TMPDIR:-${TMPDIR:-/tmp}}"
WHERE = "code/where.sh"
EXIT_NOT_STAGED = 75  # EX_TEMPFAIL of sysexits.h
# 128 random bits: who guesses the name could make a folder of his there before the job does.
RANDOM = """$(od -An -N16 -tx1 /dev/urandom | tr -d ' \\n')"""
# The script's own end follows, and gets the exit code that it would have had.
# Another signal ends the first `wait`.
AT_THE_END = (
    "trap 'code=$?; exec {release}>&-; wait $holder || wait $holder; (exit $code); finish' EXIT"
)


def of(plan: Plan, paths: JobPaths) -> list[str]:
    """Return the lines of a job, which leave for `found_again` what only they know.

    None for a job that stages nothing.
    """
    if not plan.staging.any:
        return []
    return [*lines(plan, str(paths.injob)), f'printf "stage=%q\\n" "$stage" > "$run/{WHERE}"']


def found_again(plan: Plan) -> list[str]:
    """Return the lines by which a command beside the ranks finds what the job has staged."""
    if not plan.staging.any:
        return []
    wait = "runner: the job is still copying its image or data to its nodes; try again later"
    gone = "runner: what the job has staged is not on this node, or not any more"
    return [
        f'[ -e "$run/{WHERE}" ] || {{ echo {quote(wait)} >&2; exit {EXIT_NOT_STAGED}; }}',
        f'. "$run/{WHERE}" || exit',
        "# After the job another user could make a folder of this name.",
        f'if [ -L "$stage" ] || [ ! -O "$stage" ]; then echo {quote(gone)} >&2; '
        f"exit {EXIT_NOT_STAGED}; fi",
    ]


def lines(plan: Plan, injob: str) -> list[str]:
    """Return the lines that bring all of it to each node; `injob` is where that package lies."""
    staging, nodes = plan.staging, plan.resources.nodes
    root = quote(Expanded(staging.root)) if staging.root else SCRATCH
    steps = SCHEDULERS[plan.launching.scheduler].STEPS
    on_each = [*(steps.once_per_node(nodes) if steps else ()), "python3", quote(injob), STAGE]
    with_image = staging.image is not ImageAccess.IN_PLACE
    hold = ["on_each_node", "hold", "image" if with_image else "data"]
    if staging.image is ImageAccess.MOUNTED:
        path, offset = quote(str(plan.spec.image.path)), str(staging.image_offset)
        hold += [STAGED_FOLDER, path, offset, plan.launching.runtime]
    text = [
        f"# {_what(plan)}; `hold` removes it once its input ends.",
        f"stage={root}",
        f'stage+="/runner-$UID-${{SLURM_JOB_ID:-local}}.{RANDOM}"',
        f'on_each_node() {{ {" ".join(on_each)} "$@"; }}',
        f"exec {{release}}> >({' '.join(hold)})",
        "holder=$!",
        AT_THE_END,
        "# The name goes by the input: other users see arguments.",
        """printf '%s\\n' "$stage" >&"$release\"""",
        """stage() { printf '%s\\n' "$stage" | on_each_node "$@" || exit; }""",
    ]
    if with_image:
        text += _bring_image(plan)
    for dataset in plan.spec.data if staging.copies_data else ():
        text += _bring(dataset.entry, dataset.path, dataset.squashfs, plan)
    return text


def _what(plan: Plan) -> str:
    staging, on_disk = plan.staging, "on each node's own disk"
    if staging.image is ImageAccess.MOUNTED:
        once = "The image mounted once on each node for all its ranks"
        return f"{once}, the data {on_disk}" if staging.copies_data else once
    copied = [] if staging.image is ImageAccess.IN_PLACE else ["image"]
    copied += ["data"] if staging.copies_data else []
    return f"The {' and the '.join(copied)} {on_disk}"


def _bring(entry: str, source: Path, one_file: bool, plan: Plan) -> list[str]:
    """One file goes to several nodes by sbcast, read once; what that did not do each node does."""
    path, name = quote(str(source)), quote(entry)
    copy = f"stage copy {name} {path}"
    several = plan.resources.nodes > 1 and capabilities(plan.launching.scheduler).broadcasts
    if not (one_file and several):
        return [copy]
    return [f"stage room {name} {path}", f'sbcast --force {path} "$stage"/{name}', copy]


def _bring_image(plan: Plan) -> list[str]:
    """Each node checks its own copy, which nobody else can change, and unpacks it.

    For one that is mounted `hold` has all it needs, and is waited for.
    """
    staging = plan.staging
    if staging.image is ImageAccess.MOUNTED:
        return [f"stage mounted {STAGED_FOLDER}"]
    text = _bring(STAGED_FILE, plan.spec.image.path, True, plan)
    if digest := plan.verified_digest.partition(":")[2]:
        text.append(f"stage verify {STAGED_FILE} {digest}")
    if staging.image is ImageAccess.UNPACKED:
        text.append(f"stage unpack {STAGED_FILE} {staging.image_offset} {STAGED_FOLDER}")
    return text
