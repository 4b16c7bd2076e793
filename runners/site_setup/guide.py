"""The guide: one page with the site's own commands. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from .. import __version__
from ..core import tokens
from ..core.remedy import Value, option_words
from ..core.site_profile import Profile
from .first_job import TRAINER, FirstJob, first_job, takes_sif
from .folder import MODULE, SetUp


def text(setup: SetUp, profile: Profile) -> str:
    """Return the page, for users of this site; its commands stand in consoles."""
    job = first_job(profile)
    sections = {
        "Load": _load(setup),
        "Get an image": _image(profile, job),
        "Run a first job": _job(profile, job),
        "What this site asks": _rules(profile),
        "Data": _data(profile, job),
        "When it goes wrong": _help(profile),
    }
    head = (
        f"# {MODULE} {__version__} on {profile.title or profile.name}\n\n"
        "Distributed training in containers, from one command. Made by `runner site-setup` from\n"
        f"the profile `{profile.name}`; `runner sites show {profile.name}` gives its values and\n"
        "their sources."
    )
    parts = [f"## {title}\n\n" + "\n\n".join(said) for title, said in sections.items() if said]
    return "\n\n".join([head, *parts]) + "\n"


def _console(*commands: str) -> str:
    return "\n".join(["```console", *(f"$ {command}" for command in commands), "```"])


def _load(setup: SetUp) -> list[str]:
    sourced = shlex.join(["source", str(setup.completion("bash"))])
    return [
        "The first line is not needed where the site has it in everybody's `MODULEPATH`.",
        _console(
            shlex.join(["module", "use", str(setup.modules)]),
            f"module load {MODULE}",
            "runner --help",
            "runner doctor",
        ),
        "The Tab key completes commands, options and their values in bash, zsh and fish. Without\n"
        f"the module, in bash: `{sourced}`.",
    ]


def _image(profile: Profile, job: FirstJob) -> list[str]:
    said = []
    if profile.paths.get("images"):
        said += [
            f"The site keeps images in `{profile.paths['images']}`; `--image` takes their paths:",
            _console(f"runner images --site {profile.name}"),
        ]
    short = "gpu" if job.gpus else "cpu"
    if takes_sif(profile) and profile.images.source:
        return [
            *said,
            f"Pull this version's own, whose signature is checked; `--image {job.image}` finds it:",
            _console(f"runner pull {short}", "runner images"),
        ]
    if takes_sif(profile):
        return [
            *said,
            f"Your own goes to your scratch, and `--image {job.image}` finds it there. Build it,\n"
            "or pull one that somebody has pushed to a registry:",
            _console(
                f"runner build {short}",
                f"runner pull oras://registry.example.org/TEAM/horovod_{short}:1",
                "runner images",
            ),
        ]
    return [
        *said,
        f"The containers here are {' or '.join(profile.runtimes)}, which run OCI images. Build one"
        "\nwhere Apptainer is, and push it to a registry that this site reaches:",
        _console(f"runner build {short}", f"runner push horovod_{short}.sif docker://{job.image}"),
    ]


def _job(profile: Profile, job: FirstJob) -> list[str]:
    launch = ["runner", "launch", *_words(("image", job.image), *job.options)]
    below = profile.rules.submit_below[:1]
    first = [f"cd {_path(below[0])}"] if below else []
    said = [
        "The first line shows what would be submitted, the second why, the third submits it."
        if not below
        else "Jobs are submitted from there only. Then: see the script, see why it is so, submit.",
        _console(
            *first,
            shlex.join([*launch, "--dry-run", TRAINER]),
            shlex.join(["runner", "plan", *launch[2:], TRAINER]),
            shlex.join([*launch, "--follow", TRAINER]),
        ),
    ]
    if job.blanks:
        said.insert(0, f"Put in your own: {', '.join(f'`--{name}`' for name in job.blanks)}.")
    return [*said, *_brought(profile), *_nodes(profile)]


def _words(*options: tuple[str, Value]) -> list[str]:
    return [word for name, value in options for word in option_words(name, value)]


def _brought(profile: Profile) -> Iterator[str]:
    pairs = [
        (name, one)
        for name, value in profile.launch.items()
        for one in (value if isinstance(value, list) else [value])
        if isinstance(one, (str, int, float))
    ]
    if pairs:
        shown = ", ".join(f"`{shlex.join(_words(pair))}`" for pair in pairs)
        yield f"The profile adds what you do not give yourself: {shown}."


def _nodes(profile: Profile) -> Iterator[str]:
    if not profile.nodes:
        return
    rows = [
        f"| `{kind.name}` | {kind.cpus or ''} | {kind.gpus or ''} | {kind.gpu_type} |"
        for kind in profile.nodes
    ]
    yield "\n".join(["| nodes | CPUs | GPUs | type |", "|---|---|---|---|", *rows])


def _rules(profile: Profile) -> list[str]:
    """Return one list, empty for a site that asks nothing."""
    rules, lines = profile.rules, []
    for setting, rule in rules.require.items():
        only = " on nodes with GPUs" if rule.gpus_only else ""
        asked = "where it is given" if rule.optional else "always"
        lines.append(f"- `--{setting}`, {asked}{only}: {rule.reason}")
    lines += [f"- never `--{setting}`: {reason}" for setting, reason in rules.forbid.items()]
    if rules.submit_below:
        lines.append(f"- jobs are submitted from below `{'`, `'.join(rules.submit_below)}`")
    for queue, limit in rules.max_time.items():
        where = "" if queue == "*" else f" in `{queue}`"
        lines.append(f"- no job may take longer than {limit}{where}")
    if rules.gpu_type:
        lines.append("- GPUs are asked for with their type, such as `--gpus-per-node A100:4`")
    if rules.whole_nodes:
        where = "" if "*" in rules.whole_nodes else f" in `{'`, `'.join(rules.whole_nodes)}`"
        lines.append(f"- a job over several nodes takes all GPUs of each{where}")
    return ["\n".join(lines)] if lines else []


def _data(profile: Profile, job: FirstJob) -> list[str]:
    said = []
    if profile.paths.get("datasets"):
        said = [
            "The site keeps datasets, folders or squashfs files, for all. `--data NAME` takes the\n"
            "one of that name, and the trainer finds it in `$DATA_DIR`:",
            _console(f"ls {_path(profile.paths['datasets'])}"),
        ]
    launch = ["runner", "launch", *_words(("image", job.image), *job.options)]
    return [
        *said,
        "Your own, fetched once by checksum:",
        _console(
            "runner data fetch",
            "runner data fetch mnist",
            shlex.join([*launch, "--data", "mnist", TRAINER]),
        ),
    ]


def _path(path: str) -> str:
    """Return a folder as the user's shell is to read it, with the variables of a profile's."""
    plain = re.fullmatch(r"[\w@%+=:,./${}-]+", path, re.ASCII)
    return path if plain else tokens.quote(tokens.Expanded(path))


def _help(profile: Profile) -> list[str]:
    ask = f"Ask {profile.contact}" if profile.contact else "Ask this site's support"
    return [
        _console(
            "runner status",
            "runner logs --follow",
            "runner explain",
            "runner doctor",
            "runner list",
        ),
        f"{ask}, with what `runner explain` says.",
    ]
