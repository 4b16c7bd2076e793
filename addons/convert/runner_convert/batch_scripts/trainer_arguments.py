"""The trainer of a launch line and its arguments; values that only a rank knows go to a shell."""

from __future__ import annotations

from collections.abc import Iterable

from runners.settings.table import SETTINGS
from runners.settings.trainers import IN_IMAGES

from . import words as kinds
from .directives import Directives
from .draft import LaunchLine
from .programs import APPTAINER, NAMES, Option, is_python
from .step import JobStep, runs_python
from .words import (
    LOOKUP,
    RUN,
    WHO_KNOWS,
    Piece,
    Unknown,
    Word,
    compose,
    escaped,
    known_on_rank,
    literal,
)

OF_HOROVODRUN = NAMES["of_horovodrun"]
# What is in a text that prints the name of the first node, on which the script runs.
OF_FIRST_NODE = ("head", "[0]", "HOSTNAME", "SLURMD_NODENAME", "$(hostname", "`hostname")
COUNTS = ("ntasks", "verbose")
PLACES = ("H", "hosts", "hostfile", "slots-per-host")


def add(draft: LaunchLine, job: Directives, step: JobStep) -> None:
    launcher = step.launcher or step.starter
    for option in launcher.options if launcher.name == "horovodrun" else ():
        _horovodrun(draft, option)
    if step.shell and step.starts_in_shell and not step.agent and not step.lead:
        text = f"{step.launcher.name or step.starter.name} within a text that does more"
        step.problems.append((step.line, f"{text}: each rank would start it"))
    if step.shell and not step.agent and not step.starts_in_shell:
        first, *more = step.shell
        _bash(draft, step, (*_preamble(draft, step), *first.pieces))
        for word in more:
            draft.argument(word)
        return
    words = list(step.program) if step.layer("shell") else [*map(_with_first_node, step.program)]
    words = words if step.agent else [*step.prefix, *words]
    if is_python(words[0].text) and len(words) > 1 and words[1].text.endswith(".py"):
        plain = words[0].text.isalnum() or (step.image is None and "/" in words[0].text)
        words = words[1:] if plain else words
    words = _as_sweep(draft, job, words)
    if _needs_shell(step, words, draft):
        _shell(draft, step, words)
        return
    own_options = words[1:] and words[1].start[:1] == "-" and not words[0].text.endswith(".py")
    head = 2 if own_options else 1
    draft.trainer = words[:head]
    draft.note(words[0])
    for word in words[head:]:
        draft.argument(word)


def _horovodrun(draft: LaunchLine, option: Option) -> None:
    name = option.name
    if name in ("gloo", "mpi"):
        draft.add("controller", name)
    elif name in OF_HOROVODRUN:
        draft.add(name, option.value if SETTINGS[name].kind != "switch" else None)
    elif name in PLACES:
        text = f"{'--'[: len(name)]}{name} {option.text}: runner places ranks"
        draft.leave_out(option.line, text)
    elif name not in COUNTS:
        draft.lose(option.line, f"horovodrun --{name}")


def _as_sweep(draft: LaunchLine, job: Directives, words: list[Word]) -> list[Word]:
    """Make `--lr ${LIST[$SLURM_ARRAY_TASK_ID]}` a sweep, where the array takes each item once."""
    places = [n for n, word in enumerate(words) if word.has(LOOKUP)]
    array, percent, limit = job.text("array").partition("%")
    if len(places) != 1:
        return words
    place, word = places[0], words[places[0]]
    values = word.unknown[0].values
    each_once = (f"0-{len(values) - 1}", ",".join(map(str, range(len(values)))))
    name, equals, _ = word.text.partition("=")
    first = place - 1 if len(word.pieces) == 1 else place
    option = words[first].text if first < place else name
    in_one = first < place or (equals and len(word.pieces) == 2)
    options = any(value.startswith("--") for value in values) or (first < place and "=" in option)
    if array not in each_once or not in_one or first < 1 or not option.startswith("--"):
        return words
    if options:  # no values of the option before them
        return words
    listed = ",".join(value.replace("\\", "\\\\").replace(",", "\\,") for value in values)
    draft.drop("array")
    if limit:
        draft.add("array", percent + limit)
    draft.add("sweep", f"{option[2:]}={listed}")
    return words[:first] + words[place + 1 :]


def _needs_shell(step: JobStep, words: list[Word], draft: LaunchLine) -> bool:
    """Whether each rank has to expand a variable of the job, or to change its folder."""
    if step.agent and not (without_agent(step) and step.image is not None):
        _change_folder(draft, step)
    if step.agent and not without_agent(step):
        return False
    of_environment = step.environment is not None and step.image is not None
    before = bool(step.shell and step.lead)
    prepares = (bool(step.agent) and (of_environment or before)) or (
        step.starts_in_shell and before
    )
    if prepares or (words[0].text.endswith(".py") and _in_container(words[0].text, draft)):
        return True
    first = words[0].text
    bare = "/" not in first and not first.endswith(".py") and not IN_IMAGES.fullmatch(first)
    if bare and words[0].known and not step.agent:
        return True  # the job's PATH has it, and perhaps not that of the user
    ranks_own = [word for word in words if any(known_on_rank(piece) for piece in word.unknown)]
    hopeless = [word for word in words if word.unknown and not _expandable(word)]
    inside = _folder_inside(step) is not None and not (step.agent and step.image is None)
    return (bool(ranks_own) and not hopeless) or bool(draft.exports) or inside


def without_agent(step: JobStep) -> bool:
    """Whether the ranks of a step's agent are the same without it, as far as its options tell."""
    options = {option.name for option in step.agent.options}
    shells = sum(layer.kind == "shell" for layer in step.layers)
    plain = step.agent.name.startswith("torch") and shells < 2
    return step.bare or (plain and options.isdisjoint(("max-restarts", "run-path")))


def _in_container(path: str, draft: LaunchLine) -> bool:
    """Whether a path is that of a bind in the container, which has another one outside."""
    for name, value in draft.options:
        source, _, rest = value.text.partition(":") if name == "bind" and value else ("", "", "")
        inside = rest.partition(":")[0].rstrip("/")
        if inside and inside != source.rstrip("/") and path.startswith(f"{inside}/"):
            return True
    return False


def _expandable(word: Word) -> bool:
    return all(known_on_rank(piece) or piece.kind not in WHO_KNOWS for piece in word.unknown)


def _with_first_node(word: Word) -> Word:
    """Return a word with the name of the first node as a rank has it."""
    first = [p for p in word.unknown if p.kind == kinds.ADDRESS and "tail" not in p.source]
    first = [p for p in first if any(command in p.source for command in OF_FIRST_NODE)]
    meeting = (Unknown(kinds.HOST, RUN, p.line) if p in first else p for p in word.pieces)
    return Word(tuple(meeting), word.line)


def _folder_inside(step: JobStep) -> Word | None:
    """Return the folder in the container in which the program, or a text that stays, starts."""
    workdir = () if step.container.name in APPTAINER else ("workdir",)
    inside = step.container.get("pwd", "cwd", "container-workdir", *workdir)
    within = step.inner if not step.shell or (step.agent and not step.lead) else ()
    folders = [
        command.words[-1] for command in within if command.name == "cd" and command.arguments
    ]
    return folders[-1] if folders else inside


def _change_folder(draft: LaunchLine, step: JobStep) -> None:
    folder = _folder_inside(step)
    if folder is None or folder.text.rstrip("/") in (".", "$PWD"):
        return
    if step.image is not None:
        draft.lose(folder.line, f"the folder {folder.text} in the container: give full paths")
    else:
        draft.folder = folder
        draft.note(folder)


def _shell(draft: LaunchLine, step: JobStep, words: list[Word]) -> None:
    """Add `bash -c '...'`, in which each rank expands what is its own."""
    pieces = [*_preamble(draft, step), *(step.lead if step.shell else ()), "exec"]
    if words[0].text.endswith(".py") and runs_python(step):
        inside = step.agent and step.image is not None and not step.prefix
        environment = step.environment if inside else None
        name = step.names[0] if is_python(step.names[0]) else "python"
        python = (
            compose((*environment.pieces, "/bin/python"), environment.line)
            if environment
            else literal(name)
        )
        words = [*step.prefix, python, *words]
    if step.bare and step.agent.name == "deepspeed" and not step.agent.has("no-local-rank"):
        place = 1 + next((n for n, word in enumerate(words) if word.text.endswith(".py")), 0)
        words.insert(place, compose(("--local_rank=", Unknown("$LOCAL_RANK", RUN, step.line)), 0))
    for word in words:
        pieces += [" ", *_for_rank(word, draft)]
    if draft.has("launcher"):
        draft.drop("launcher")
        name = step.agent.name
        draft.leave_out(step.agent.line, f"{name}: runner starts the ranks, each with a shell")
    _bash(draft, step, (*(f"{definition}; " for definition in draft.definitions), *pieces))


def _bash(draft: LaunchLine, step: JobStep, text: Iterable[Piece]) -> None:
    draft.trainer = [literal(word, step.line) for word in ("bash", "-lc" if step.login else "-c")]
    draft.argument(compose(text, step.line))


def _preamble(draft: LaunchLine, step: JobStep) -> list[Piece]:
    """Return what the shell of a rank does first: exports, and a change of its folder."""
    pieces: list[Piece] = []
    for name, value in draft.exports:
        pieces += [f"export {name}=", *_for_rank(value, draft), "; "]
    if (folder := _folder_inside(step)) is not None and not (step.agent and step.image is None):
        pieces += ["cd ", *_for_rank(folder, draft), " && "]
    return pieces


def _for_rank(word: Word, draft: LaunchLine) -> list[Piece]:
    """Return a word for the shell of a rank; what the user's shell knows stays a variable."""
    if not word.unknown:
        return [word.quoted()]
    quote = "" if _may_be_several(word) else '"'
    pieces: list[Piece] = [quote]
    for piece in word.pieces:
        if isinstance(piece, str):
            pieces.append(escaped(piece))
            continue
        if piece.kind == LOOKUP:
            items = " ".join(literal(value).quoted() for value in piece.values)
            definition = f"{piece.source[2:].partition('[')[0]}=({items})"
            draft.definitions += [definition] if definition not in draft.definitions else []
        pieces.append(piece.source if known_on_rank(piece) else piece)
    return [*pieces, quote]


def _may_be_several(word: Word) -> bool:
    """Whether the shell may make several words of one, or none: of `$ARGS`, of an item "--lr 1"."""
    piece = word.unknown[0]
    if len(word.pieces) > 1 or known_on_rank(piece):
        values = piece.values if len(word.pieces) == 1 else ()
        return any(not value or (value[:1] == "-" and " " in value) for value in values)
    return not piece.quoted


def exports(draft: LaunchLine, name: str, value: Word) -> None:
    """Add a variable of the trainer: an option, or for the rank's shell to set."""
    if value.portable:
        draft.add("env", compose((f"{name}=", *value.pieces), value.line))
    elif _expandable(value):
        draft.exports = [export for export in draft.exports if export[0] != name] + [(name, value)]
    else:
        piece = next(piece for piece in value.unknown if piece.kind in WHO_KNOWS)
        draft.lose(value.line, f"{name}={value.text}: {WHO_KNOWS[piece.kind]}")
