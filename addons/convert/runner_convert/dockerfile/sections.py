"""The sections of a definition, of the stages that were read. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from .copies import COPY
from .copy_sources import TAKE
from .definition_quoting import joined, with_arguments
from .runs import MOUNT
from .stage import BARE, STAGED, Stage

# Prints the home of a user, by name or number: in Docker what follows USER has it as HOME.
HOME = """\
home() {
        while IFS=: read -r name _ number _ _ folder _; do
            [ "$1" != "$name" ] && [ "$1" != "$number" ] || echo "$folder"
        done < /etc/passwd
    }"""
BASE_SCRIPT = "/.singularity.d/base-runscript"
# Apptainer (1.4) writes ENTRYPOINT and CMD of the base so.
KEEP_BASE_SCRIPT = f"""\
case "$(cat /.singularity.d/runscript)" in
        *OCI_ENTRYPOINT=*) cp /.singularity.d/runscript {BASE_SCRIPT} ;;
    esac"""
# In Docker root or the last USER runs the image, with what is in their homes, such as uv's Pythons.
OPEN_HOMES = 'for home in /root "$HOME"; do [ ! -d "$home" ] || chmod a+rx "$home"; done'
INDENT = "    "


def sections(stage: Stage, named: bool, last: bool) -> Iterator[list[str]]:
    """The sections of a stage, headings first."""
    source = [f"From: {stage.base}"] if stage.base != "scratch" else []
    bootstrap = "docker" if source else "scratch"
    yield [f"Bootstrap: {bootstrap}", *source, *([f"Stage: {stage.name}"] if named else [])]
    texts = {
        "arguments": [f"{name}={value}" for name, value in stage.arguments.items()],
        "setup": [*_setup(stage.setup), *stage.setup],
        "files": [_pair(pair) for pair in stage.files],
        **{f"files from {name}": list(map(_pair, pairs)) for name, pairs in stage.layers.items()},
        "labels": [f"{name} {value}" for name, value in stage.labels],
        "post": _post(stage, last),
    }
    if last:
        texts["environment"] = stage.environ
    if last and (script := _runscript(stage)):
        texts |= {"runscript": script, "startscript": script}
    for name, lines in texts.items():
        if lines:
            yield [f"%{name}", *(f"{INDENT}{line}" for line in lines)]


def _pair(pair: tuple[str, str]) -> str:
    return " ".join(f'"{path}"' if " " in path else path for path in pair)


def _setup(lines: list[str]) -> list[str]:
    if any(line.startswith("take ") for line in lines):
        return [TAKE % STAGED]
    return ["set -e", "umask 022"] if lines else []


def _post(stage: Stage, last: bool) -> list[str]:
    keeps = last and _keeps_base_script(stage)
    if not stage.works and not keeps:
        return []
    lines = stage.install
    begins = {"copy ": COPY, "mounted ": MOUNT, "HOME=$(home": HOME}
    functions = [text for start, text in begins.items() if any(x.startswith(start) for x in lines)]
    end = []
    if last and any(STAGED in line for line in lines):
        end.append(f"rm -rf {STAGED}")
    if last:
        end.append(OPEN_HOMES)
    if keeps:
        end.append(KEEP_BASE_SCRIPT)
    return ["umask 022", *functions, *lines, *end]


def _keeps_base_script(stage: Stage) -> bool:
    """Whether a CMD goes to the ENTRYPOINT that the base may have."""
    return stage.command is not None and stage.entrypoint is None and not BARE.search(stage.base)


def _runscript(stage: Stage) -> list[str]:
    """What runs without words of the user's; "" where the base's own runs.

    As in Docker, the user's words take the place of CMD and follow ENTRYPOINT; to the shell of
    `ENTRYPOINT python main.py $@` they are $0, $1 and so on.
    """
    entrypoint, command = stage.entrypoint, stage.command
    if entrypoint is None and command is None:
        return []
    lines = [f"cd {with_arguments(stage.folder)}"] if stage.has_folder else []
    if command:
        lines.append(f"[ $# -gt 0 ] || set -- {joined(command)}")
    if entrypoint:
        return [*lines, f'exec {joined(entrypoint)} "$@"']
    if _keeps_base_script(stage):
        lines.append(f'[ ! -e {BASE_SCRIPT} ] || SINGULARITY_NO_EVAL=1 exec {BASE_SCRIPT} "$@"')
    return [*lines, 'exec "$@"']
