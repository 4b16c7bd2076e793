"""A definition becomes a Dockerfile, for machines that build with Docker or Podman.

spython's parser reads the definition and its writer writes the Dockerfile. What they would lose or
change is refused by its name, or given to the writer as it has to stand there: spython 0.3.14 makes
a RUN of each line of %post, writes scripts by `echo "..."`, has From in small letters, sets
%environment before %post runs, and copies with ADD, which unpacks archives.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from containers import definition
from runners.core.errors import Refused

from ..line_diagnosis import LineDiagnosis
from .definition_files import copies
from .stage import note

CONVERTED = ("", "environment", "labels", "files", "post", "runscript")
LEFT_OUT = {
    "help": "a Docker image has no help: write it into a label",
    "test": "a Docker image has no test: run it by hand, `docker run IMAGE sh -c '...'`",
    "startscript": "a Docker image has no instances",
}
REFUSED = {
    "setup": "it runs on this machine, which a Dockerfile cannot",
    "pre": "it runs on this machine, which a Dockerfile cannot",
    "arguments": "a template: write the values into the definition",
}
APP = "a Docker image has no apps"
OF_RUNTIME = re.compile(r"\b(?:APPTAINER|SINGULARITY)_(?:ROOTFS|ENVIRONMENT|LABELS)\b")
SHELLS = re.compile(r"#!\s*(?:/usr)?/bin/(?:env\s+)?(?:ba|da|z|k)?sh(?:\s+-\w+)*\s*$")
# What ENV reads as a shell does: quoted or plain, without commands in it.
QUOTED = r"""(?:"(?:[^"\\`$]|\\["$\\]|\$(?!\())*"|'[^']*')"""
PLAIN = r"""(?:[^\s"'`;&|<>()\\#$]|\$\w+|\$\{\w+(?::[-+][^}"'$`]*)?\})"""
ONE = rf"([A-Za-z_]\w*)=((?:{QUOTED}|{PLAIN})*)"
ASSIGNMENT = re.compile(rf"{ONE}(?=\s|$)")
ENVIRONMENT = re.compile(rf"(?:export\s+)?{ONE}(?:\s+{ONE})*\s*(?:\s#.*)?")
# `set -a`, `export A B` of what is set before: ENV exports all.
EXPORTED = re.compile(r"(?:set -a|export(?:\s+[A-Za-z_]\w*)+)\s*(?:#.*)?")
HOSTS = re.compile(r"\$\{?((?!PATH\b|LD_LIBRARY_PATH\b|LIBRARY_PATH\b|PYTHONPATH\b|MANPATH\b)\w+)")
# [HOST[:PORT]/]PATH[:TAG][@DIGEST], of which spython's writer ends the program where it is another.
IMAGE = re.compile(r"[\w.-]+(?::\d+(?=/))?(?:/[\w.-]+)*(?::[\w.-]+)?(?:@\w+:\w+)?")
POST, STAGE, LAST = "/.post.script", "post", "image"


class Line(NamedTuple):
    """A line of a definition: its number, section and text."""

    number: int
    section: str
    text: str


class Dockerfile(NamedTuple):
    """The text, and what is not in it."""

    text: str
    notes: list[LineDiagnosis]


def convert(path: Path, text: str) -> Dockerfile:
    """Return the Dockerfile of a definition, whose folder is the build context.

    Raises UsageError where it is no definition that could be built, Refused for what a Dockerfile
    cannot say.
    """
    definition.check(text, path.name, _defaults(text))
    lines = [Line(*line) for line in definition.lines(text)]
    content = [line for line in lines if not definition.is_heading(line.text)]
    files, problems = copies(Path(os.path.abspath(path)).parent, _of(content, "files"))
    problems += [*_refused(lines), *_of_runscript(content), *_of_environment(content)]
    if problems:
        evidence = "\n".join(f"line {n}: {problem}" for n, problem in sorted(problems))
        raise Refused(
            f"{path.name} cannot become a Dockerfile", evidence, id="definition-not-convertible"
        )
    try:
        return Dockerfile(_written(content, files), list(_notes(lines, content)))
    except RuntimeError as error:  # spython refuses a text by a kind of it
        raise Refused(
            f"{path.name} cannot be read by spython", str(error), id="definition-not-parsed"
        ) from None


def _defaults(text: str) -> dict[str, str]:
    return {name: "" for _, _, name in definition.placeholders(text)}


def _of(lines: Iterable[Line], section: str) -> list[Line]:
    """Return the lines of a section that say something."""
    return [
        n for n in lines if n.section == section and n.text.strip() and n.text.strip()[0] != "#"
    ]


def _refused(lines: Sequence[Line]) -> Iterator[tuple[int, str]]:
    """Yield line and words for what spython's parser loses, and for what has no instruction."""
    started = 0
    for number, section, text in lines:
        words = text.split()
        if definition.is_heading(text):
            why = REFUSED.get(section) or (APP if section.startswith("app") else "")
            why = why or ("stages, or another shell" if words[1:] and section in CONVERTED else "")
            if why:
                yield number, f"{text.strip()}: {why}"
        elif section == "" and words and not text.lstrip().startswith("#"):
            key, _, value = (part.strip() for part in text.partition("#")[0].partition(":"))
            started += key.lower() == "bootstrap"
            if why := _of_header(key.lower(), value, started):
                yield number, f"{text.strip()}: {why}"
        if "{{" in text:
            yield number, f"{text.strip()}: a template: write its value into the definition"
        elif section == "post" and (used := OF_RUNTIME.search(text)):
            yield number, f"{used[0]}: only Apptainer has it; %environment and %labels do the same"
    if not started or not _base(lines):
        yield 1, "no lines `Bootstrap: docker` and `From: IMAGE`"


def _base(lines: Iterable[Line]) -> str:
    """Return the image of the line From; spython's parser puts it into small letters."""
    texts = (text.partition("#")[0] for _, section, text in lines if not section)
    pairs = (text.partition(":")[::2] for text in texts)
    return next((value.strip() for key, value in pairs if key.strip().lower() == "from"), "")


def _of_header(key: str, value: str, started: int) -> str:
    if key == "stage" or started > 1:
        return "stages: convert one definition for each"
    if key == "bootstrap" and value.lower() != "docker":
        return "a Dockerfile starts from an image of a registry: `Bootstrap: docker`"
    if key == "from" and not (IMAGE.fullmatch(value) or "{{" in value):
        return "not the name of an image"
    return "" if key in ("bootstrap", "from") else "only Apptainer reads it"


def _of_runscript(lines: Sequence[Line]) -> Iterator[tuple[int, str]]:
    runscript = [line for line in lines if line.section == "runscript" and line.text.strip()]
    for line in runscript[:1]:
        if line.text.startswith("#!") and not SHELLS.match(line.text):
            yield line.number, f"%runscript, {line.text}: not a script of a shell"


def _of_environment(lines: Sequence[Line]) -> Iterator[tuple[int, str]]:
    for number, _, text in _of(lines, "environment"):
        if not (ENVIRONMENT.fullmatch(text.strip()) or EXPORTED.fullmatch(text.strip())):
            yield number, f"%environment, {text.strip()}: ENV sets values and runs nothing"


def _notes(lines: Sequence[Line], content: Sequence[Line]) -> Iterator[LineDiagnosis]:
    for number, section, text in lines:
        if definition.is_heading(text) and section in LEFT_OUT:
            yield note("section-left-out", number, text.strip(), LEFT_OUT[section])
    set_before = set[str]()
    for number, _, text in _of(content, "environment"):
        for name, value in ASSIGNMENT.findall(text):
            for variable in {*HOSTS.findall(value)} - set_before if value[:1] != "'" else ():
                what = f"{name} is made of {variable} while the image is built"
                remedy = "Apptainer takes that of who runs it"
                yield note("value-of-who-runs-it", number, what, remedy)
            set_before.add(name)


def _written(lines: Sequence[Line], files: Sequence[str]) -> str:
    from spython.main.parse.writers.docker import DockerWriter

    read, run = _parsed(lines), _script(lines, "runscript")
    built, image = type(read)(), type(read)(layer=2)
    built.fromHeader = _base(lines)
    built.files = list(files)
    post = _script(lines, "post")
    built.install = ["USER root", POST] if post.strip() else []
    image.fromHeader = STAGE
    image.labels = [_worded("LABEL", _label(text)) for text in read.labels if text[0] != "#"]
    pairs = (pair for text in read.environ for pair in ASSIGNMENT.findall(text))
    image.environ = [_worded("ENV", f"{name}={value}") for name, value in pairs]
    if run.strip():
        image.cmd, image.entrypoint = "[]", json.dumps([*_shell(run), "-c", run, "runscript"])
    text = DockerWriter({STAGE: built, LAST: image}).convert()
    text = re.sub("^ADD ", "COPY ", text, flags=re.MULTILINE)
    return text.replace(f"RUN {POST}", _run(post)) + "\n"


def _parsed(lines: Sequence[Line]) -> Any:
    """Return spython's recipe of what it reads as it stands."""
    from spython.main.parse.parsers.singularity import SingularityParser

    parser = SingularityParser(None, load=False)
    for section in ("", "labels", "environment"):
        heading = [f"%{section}"] if section else []
        parser.lines += [*heading, *(line.text for line in _of(lines, section))]
    (recipe,) = parser.parse().values()
    return recipe


def _script(lines: Sequence[Line], section: str) -> str:
    """Return the text of a section as it stands, without empty lines at its ends."""
    return "\n".join(line.text for line in lines if line.section == section).strip("\n")


def _shell(script: str) -> list[str]:
    """Return the shell of a script's first line, that of Apptainer where it names none."""
    first = script.splitlines()[0]
    return first[2:].split() if first.startswith("#!") else ["/bin/sh"]


def _run(script: str) -> str:
    """Return the instruction that runs %post as one script, in Apptainer's folder."""
    end = "END_OF_POST"
    while end in script:
        end += "_"
    return f"RUN <<'{end}'\nset -e\ncd /\n{script}\n{end}"


def _label(text: str) -> str:
    name, _, value = text.strip().partition(" ")
    escaped = re.sub(r'([\\"$])', r"\\\1", value.strip().strip('"'))
    return f'"{name}"="{escaped}"'


def _worded(instruction: str, text: str) -> str:
    """Return an instruction's text; the writer takes one with USER in it for whole as it is."""
    return f"{instruction} {text}" if "USER" in text else text
