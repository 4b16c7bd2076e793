"""What an image says of itself beside its labels: help, runscript, environment, test, definition.

The runtime is asked, by spython, where the SIF file holds these texts. For an older file, and for a
sandbox, `apptainer inspect` runs a shell of the image or of this machine on it: there the texts are
read here, as far as they can be.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..core import sif, untrusted_folder
from ..core.errors import Refused, RunnerError, SystemFault
from ..core.remedy import advice, command
from . import container_runtime
from .facts import environment_facts

# Its name in what the runtime answers, and its file in a sandbox; the longest last.
SECTIONS = {
    "help": ("helpfile", "runscript.help"),
    "runscript": ("runscript", "runscript"),
    "test": ("test", "test"),
    "definition": ("deffile", "Singularity"),
}
DEFINITION, ENVIRONMENT = "definition", "environment"
OF_IMAGE = ".singularity.d"
OF_SHELL = set('$`"\\;&|')  # signs of a path that a shell obeys
# Scripts of the environment that the runtime itself puts into each image.
OF_RUNTIME = ("01-base.sh", "94-appsbase.sh", "95-apps.sh", "99-base.sh", "99-runtimevars.sh")


@dataclass(frozen=True)
class Metadata:
    """The text of each section, those of the environment by file; and why there are no others."""

    named: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    problem: RunnerError | None = None

    def sections(self) -> dict[str, str | dict[str, str] | None]:
        """Return all sections; None or an empty one for what the image does not have."""
        return {ENVIRONMENT: self.environment, **{name: self.named.get(name) for name in SECTIONS}}

    def texts(self) -> Iterator[tuple[str, str]]:
        """Yield a heading and a text for each that is not empty."""
        files = {f"{ENVIRONMENT}, {file}": text for file, text in self.environment.items()}
        for heading, text in {**files, **{n: self.named.get(n, "") for n in SECTIONS}}.items():
            if text.strip():
                yield heading, text.strip("\n")


def read(path: Path) -> Metadata:
    """Return the texts of a SIF file or a sandbox; nothing of the image is executed."""
    if environment_facts.is_one(path):
        return Metadata()
    if path.is_dir():
        return _of_sandbox(path)
    if sif.labels(path) is None:
        return _of_old_file(path)
    try:
        return _by_runtime(path)
    except RunnerError as error:
        return Metadata(problem=error)


def _by_runtime(path: Path) -> Metadata:
    runtime = container_runtime.command()
    from spython.main import get_client  # 40 ms, which no other command pays

    client = get_client(quiet=True)
    # spython 0.3.14 always calls `singularity`, which is absent where only apptainer is.
    client._init_command = lambda action, flags=None: [runtime, *(flags or []), action]
    try:
        answer: Any = client.inspect(str(path))
    except (ValueError, LookupError, TypeError) as error:  # it answered something else
        raise SystemFault(
            f"{runtime} inspect {path} failed", str(error), id="inspect-unreadable"
        ) from None
    if "attributes" not in answer:
        raise SystemFault(
            f"{runtime} inspect {path} failed",
            "".join(answer.get("message", "")),
            id="inspect-failed",
        )
    found = answer["attributes"]
    named = {name: found[key] for name, (key, _) in SECTIONS.items() if found.get(key)}
    return Metadata(named, dict(found.get(ENVIRONMENT) or {}))


def _of_old_file(path: Path) -> Metadata:
    """Return the definition, which Singularity before 3.6 has put into the file too."""
    text = sif.definition(path)
    named = {DEFINITION: text} if text else {}
    missing = [name for name in (ENVIRONMENT, *SECTIONS) if name not in named]
    why = "the file has no metadata, as those of Singularity before 3.6"
    return Metadata(named, {}, _asks_for_a_shell(path, missing, why))


def _of_sandbox(path: Path) -> Metadata:
    """Return what the files of a sandbox hold; one that it does not have is no section of it."""
    named, environ, unread = dict[str, str](), dict[str, str](), list[str]()
    scripts = {f"/{file}": (environ, file) for file in _scripts(path)}
    files = {name: (named, f"{OF_IMAGE}/{file}") for name, (_, file) in SECTIONS.items()}
    for name, (texts, file) in {**scripts, **files}.items():
        try:
            with untrusted_folder.open_file(path, file) as opened:
                texts[name] = opened.read(sif.LARGEST_METADATA).decode("utf-8", "replace")
        except FileNotFoundError:
            continue
        except OSError:  # a link, which could lead to a private file, or a pipe
            unread.append(file)
    why = "not a plain file, but a link, a pipe or a folder"
    return Metadata(named, environ, _asks_for_a_shell(path, unread, why) if unread else None)


def _asks_for_a_shell(path: Path, missing: list[str], why: str) -> Refused:
    """Name what is not shown, and the command of the runtime for it."""
    what = f"{', '.join(missing)}: not shown, since a shell would have to run on {path}"
    show = command("apptainer", "inspect", "--all", str(path))
    if OF_SHELL & set(str(path)):  # seen with Apptainer 1.4.5: it runs the $(...) of a path here
        show = advice("rename it first: apptainer inspect hands its path to a shell")
    return Refused(
        what,
        why,
        [show, advice("that runs what is in it: for images that you trust")],
        id="image-files-not-plain",
    )


def _scripts(path: Path) -> list[str]:
    folder = f"{OF_IMAGE}/env"
    try:
        names = untrusted_folder.names(path, folder)
    except FileNotFoundError:
        return []
    except OSError:
        return [folder]  # its reading fails too, and is told
    return [f"{folder}/{n}" for n in names if n.endswith(".sh") and n not in OF_RUNTIME]
