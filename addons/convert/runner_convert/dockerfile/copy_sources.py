"""Where the files of COPY and ADD come from: each is brought into a folder of its own in the image.

%setup packs what lies beside the Dockerfile, with links and modes, as Docker does.
"""

from __future__ import annotations

import os
import re
import shlex
import tarfile
from collections.abc import Iterable
from pathlib import PurePosixPath

from runners.core.errors import Refused

from .definition_quoting import HIDDEN, OPEN, PLACEHOLDER, with_arguments
from .ignore import matches
from .parse import Heredoc, Instruction
from .reader import Reader
from .stage import STAGED, Stage

ARCHIVE = re.compile(r"\.(?:tar|tar\.\w+|tgz|tbz2?|txz)$")
GIT = re.compile(r"^(?:git@|git://|ssh://)|^https?://[^#?]*\.git(?:[#?]|$)")
IMAGES = (".sif", ".simg")
GLOB = re.compile(r"[*?[]")
HERE = f'"$APPTAINER_ROOTFS{STAGED}/{{}}"'
# A function of %setup, as far as a stage uses it.
TAKE = """\
set -e
    umask 022
    # NUMBER WORDS...: packs what is beside the definition, as root's
    take() {
        to="$APPTAINER_ROOTFS%s/$1"; shift
        mkdir -p "$to"
        tar --numeric-owner --owner=0 --group=0 --anchored --no-wildcards -cf "$to.tar" "$@"
        tar -xpf "$to.tar" -C "$to"
        rm "$to.tar"
    }"""


class Sources(Reader):
    """Brings files into an image; methods return the path that they have until they are placed."""

    def known(self) -> dict[str, str]:
        """The variables with a value where no argument of the build can stand."""
        return {**self.stage.arguments, **self.stage.variables}

    def _number(self) -> str:
        self.stage.copies += 1
        return str(self.stage.copies)

    def _write(self, item: Instruction, document: Heredoc) -> str:
        text = OPEN.sub(HIDDEN, document.body)
        if not document.raw:
            text = self.static(item, text)
        path = f"{STAGED}/{self._number()}/{document.name}"
        self.post(f"mkdir -p {with_arguments(str(PurePosixPath(path).parent))}")
        self.post(f"printf '%s\\n' {with_arguments(text)} > {with_arguments(path)}")
        return path

    def _clone(self, item: Instruction, source: str) -> str:
        url, _, fragment = source.partition("#")
        reference, _, folder = fragment.partition(":")
        number = self._number()
        to = HERE.format(number)
        lines = [f"git clone --quiet --recurse-submodules {with_arguments(url)} {to}"]
        if reference:
            word = with_arguments(reference)
            lines.append(
                f"git -C {to} checkout --quiet {word} || {{ git -C {to} fetch --quiet origin {word}"
                f" && git -C {to} checkout --quiet FETCH_HEAD; }}"
            )
            lines.append(f"git -C {to} submodule --quiet update --init --recursive")
        if dict(item.flags).get("keep-git-dir") != "true":
            lines.append(f"rm -rf {to}/.git")
        self.stage.setup += lines
        if "?" in url:
            self.note(item, f"ADD {source}", "write what follows the ? as #REFERENCE:FOLDER")
        return str(PurePosixPath(STAGED, number, folder))

    def _fetch(self, item: Instruction, source: str) -> str:
        name = re.sub(r"[?#].*", "", source).rpartition("/")[2] or "index.html"
        number = self._number()
        file = f"{HERE.format(number)}/{with_arguments(name)}"
        self.stage.setup += [
            f"mkdir -p {HERE.format(number)}",
            f"curl -fsSL {with_arguments(source)} -o {file}",
            f"chmod 600 {file}",
        ]
        kind, _, digest = dict(item.flags).get("checksum", "").partition(":")
        if digest:
            self.stage.setup.append(f'echo "{digest}  "{file} | {kind}sum -c --quiet -')
        if dict(item.flags).get("unpack") == "true":
            self.stage.setup.append(f"tar -xpf {file} -C {HERE.format(number)} && rm {file}")
            return f"{STAGED}/{number}"
        return f"{STAGED}/{number}/{name}"

    def _is_archive(self, source: str) -> bool:
        path = self.context / source.strip("/")
        if not path.is_file() or not self.is_inside(source.strip("/")):
            return bool(ARCHIVE.search(source))
        return tarfile.is_tarfile(path) or path.suffix == ".zst"

    def _unpack(self, item: Instruction, source: str) -> str:
        paths = self._in_context(item, source)
        number = self._number()
        self.stage.setup.append(f"mkdir -p {HERE.format(number)}")
        for path in paths:
            self.stage.setup.append(f"tar -xpf {with_arguments(path)} -C {HERE.format(number)}")
        return f"{STAGED}/{number}"

    def _pack(self, item: Instruction, paths: list[str]) -> str:
        """Bring paths of the context into a new folder of the image; return its number."""
        number = self._number()
        links = [path for path in paths if (self.context / path).is_symlink()]
        for path in links:  # itself is followed, and those below are not
            to = f"{HERE.format(number)}/{with_arguments(str(PurePosixPath(path).parent))}/"
            self.stage.setup.append(f"mkdir -p {to}")
            self.stage.setup.append(f"cp -aH --no-preserve=ownership {with_arguments(path)} {to}")
        if others := [path for path in paths if path not in links]:
            left = [f"--exclude={name}" for path in others for name in self._left_out(item, path)]
            words = [*map(shlex.quote, left), *map(_packed, others)]
            self.stage.setup.append(f"take {number} {' '.join(words)}")
        return number

    @property
    def _own(self) -> list[str]:
        """The definition, and the image that `runner build` makes of it beside it."""
        image = str(PurePosixPath(self.left_out or "x").with_suffix(".sif"))
        return [self.left_out, image] if self.left_out else []

    def _note_images(self, item: Instruction, source: str, paths: Iterable[str]) -> None:
        """Say which images of a folder or pattern are copied with it."""
        images = (image for image in paths if image.endswith(IMAGES) and image not in self._own)
        if taken := [image for image in images if image not in self.ignored]:
            what = f"{item.word} {source} takes {', '.join(taken)} along"
            self.note(item, what, "name it in .dockerignore, if it is an earlier image")

    def _left_out(self, item: Instruction, path: str) -> list[str]:
        """What of a folder is not copied, by the names that tar gives it."""
        if not (self.context / path).is_dir():
            return []
        ignored = self.ignored.below(self.context, path)
        if ignored:
            self.note(item, f"{item.word} {path}", ".dockerignore leaves out what is there now")
        names = sorted(entry.name for entry in (self.context / path).iterdir())
        self._note_images(item, path, (str(PurePosixPath(path, name)) for name in names))
        if self.left_out and path == ".":
            ignored += self._own
        return [f"./{name}" if path == "." else _dashed(name) for name in ignored]

    def _in_context(self, item: Instruction, source: str) -> list[str]:
        """The paths that a source stands for. Refused when one leads out of the context."""
        path = _rooted(source)
        if ".." in source.split("/") and os.path.normpath(source.lstrip("/")).startswith(".."):
            what = f"{item.word} {source}"
            self.note(item, what, f"Docker takes {path}: nothing is above the Dockerfile's folder")
        known = _rooted(PLACEHOLDER.sub(lambda match: self.stage.arguments.get(match[1], ""), path))
        if not self.is_inside(known):
            self._outside(item, known)
        paths = matches(self.context, known)
        if GLOB.search(known):
            paths = [path for path in paths if path not in self._own]
            self._note_images(item, source, paths)
        for file in paths:
            if not self.is_inside(file):
                self._outside(item, file)
            if file in self.ignored:
                self.note(item, f"{source} is in .dockerignore", "Docker does not find it")
        if not paths and GLOB.search(known) and known == path:
            self.note(item, f"nothing is {source} beside the Dockerfile", "it is left out")
            return []
        if not paths:
            self.note(item, f"{source} is not beside the Dockerfile", "it must be when built")
        return [path] if known != path or not paths else paths

    def _outside(self, item: Instruction, path: str) -> None:
        raise Refused(
            f"line {item.line}: {item.word} {path} leads out of the Dockerfile's folder",
            f"{path} is {os.path.realpath(self.context / path)}",
            "put a copy of the file beside the Dockerfile",
            id="copy-outside-context",
        )

    def _from(self, stage: Stage, source: str) -> str:
        """Bring files of a stage into a new folder; return the path that they have there."""
        number, name = self._number(), PurePosixPath(source).name or "root"
        folder = f"{STAGED}/{number}"
        to = f"{folder}/" if GLOB.search(name) else f"{folder}/{name}"
        pairs = self.stage.layers.setdefault(stage.name, [])
        pairs.append((str(PurePosixPath("/", source)), to))
        return f"{folder}/{name}"

    def staged(self, item: Instruction, origin: str | None, source: str) -> str:
        """The path at which a file or folder lies that RUN mounts."""
        if origin is not None:
            return self._from(self._origin(self.expand(item, origin, self.known())), source)
        path = (self._in_context(item, source) or [source])[0]
        return str(PurePosixPath(STAGED, self._pack(item, [path]), path))

    def _origin(self, origin: str) -> Stage:
        """A stage by name or number, or an image."""
        number = int(origin) if origin.isdecimal() else len(self.stages)
        if number < len(self.stages) - 1:
            return self.stages[number]
        if (stage_of_name := self.named(origin)) and stage_of_name is not self.stage:
            return stage_of_name
        for stage in self.outside:
            if stage.base == origin:
                return stage
        self.outside.append(Stage(f"image{len(self.outside)}", origin))
        return self.outside[-1]


def _rooted(source: str) -> str:
    """A path in the context, whose root is its own parent, as Docker reads it."""
    return os.path.normpath(f"/{source}").lstrip("/") or "."


def _packed(path: str) -> str:
    """A path for tar; a pattern with an argument in it is replaced when the image is built."""
    return globbed(_dashed(path)) if PLACEHOLDER.search(path) else with_arguments(_dashed(path))


def globbed(path: str) -> str:
    """A path for a shell, which replaces its * and ?."""
    return "".join(
        part if GLOB.match(part) else with_arguments(part)
        for part in re.split(r"([*?]|\[[^]]*\])", path)
        if part
    )


def _dashed(path: str) -> str:
    return f"./{path}" if path.startswith("-") else path
