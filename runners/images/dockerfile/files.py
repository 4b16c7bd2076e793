"""COPY and ADD, which a definition says below %files, before anything is run."""

from __future__ import annotations

import glob
import re
import shlex
from pathlib import PurePosixPath

from .parse import Instruction, shell, words
from .stage import Reader, Stage

ARCHIVE = re.compile(r"\.(?:tar|tar\.\w+|tgz|tbz2?|txz)$")
DELIMITER = re.compile(r"<<-?(['\"]?)(\w+)\1")
UNPACK = "/opt/.added"  # where archives lie until they are unpacked


class Files(Reader):
    """Reads the instructions that bring files."""

    copied_late: Instruction | None = None

    def add(self, item: Instruction) -> None:
        """ADD: files, archives to unpack, addresses to fetch."""
        paths = self._paths(item)
        if len(paths) < 2 or not any(fetched(path) or unpacked(path) for path in paths[:-1]):
            self.copy(item)
            return
        for source in paths[:-1]:
            self._add_one(item, source, self._target(paths[-1]))

    def _add_one(self, item: Instruction, source: str, target: str) -> None:
        if source.endswith(".git") or source.startswith("git@"):
            self.note(item, f"ADD {source}", "write 'git clone' into %post")
        elif fetched(source):
            self._fetch(source, target)
            self.note(item, f"ADD {source}", "%post fetches it with curl, which the base must have")
        elif unpacked(source):
            there = f"{UNPACK}/{PurePosixPath(source).name}"
            self._file(source, there)
            into = shlex.quote(target)
            self.post(f"mkdir -p {into} && tar -xf {there} -C {into} && rm {there}")
        else:
            self._file(source, target)

    def _fetch(self, source: str, target: str) -> None:
        file = target + source.rpartition("/")[2] if target.endswith("/") else target
        folder = shlex.quote(str(PurePosixPath(file).parent))
        self.post(f"mkdir -p {folder} && curl -fsSL {shlex.quote(source)} -o {shlex.quote(file)}")

    def copy(self, item: Instruction) -> None:
        """COPY: from beside the Dockerfile, from a stage or image, or the text that follows."""
        origin, paths = dict(item.flags).get("from"), self._paths(item)
        if len(paths) < (1 if item.bodies else 2):
            self.note(item, f"{item.word} {item.flat}", "it names no target; write it below %files")
            return
        target = self._target(paths[-1])
        if item.bodies:
            self._write(item, target)
        elif origin is None:
            self._from_here(item, paths[:-1], target)
        else:
            self._from_stage(item, origin, paths[:-1], target)
        self._flags(item, target)

    def _write(self, item: Instruction, target: str) -> None:
        path = shlex.quote(target)
        matches = list(DELIMITER.finditer(item.text))
        folder = shlex.quote(str(PurePosixPath(target).parent))
        start = f"mkdir -p {folder}\n    cat > {path} {matches[0][0]}"
        self.post(f"{start}\n{item.bodies[0]}\n{matches[0][2]}")
        if len(matches) > 1:
            self.note(item, "several texts in one COPY", "write the others into %post")

    def _from_here(self, item: Instruction, sources: list[str], target: str) -> None:
        if self.stage.ran and self.copied_late is None:
            self.copied_late = item
        for source in sources:
            path = source.strip("/") or "."
            if not glob.glob(str(self.context / path)):
                self.note(item, f"{source} is not beside the Dockerfile", "it must be when built")
            # COPY takes what is in a folder, %files the folder.
            inside = "/." if (self.context / path).is_dir() else ""
            self._file(path + inside, target)
            if inside and (self.context / ".dockerignore").exists():
                self.note(item, f"COPY {source}", ".dockerignore is not heard: all of it is copied")

    def _from_stage(self, item: Instruction, origin: str, sources: list[str], target: str) -> None:
        found = self.named(origin) or self._image(origin)
        self.stage.uses.add(found.name)
        for source in sources:
            self._file(source, target, found.name)
            same = PurePosixPath(source).name == PurePosixPath(target).name
            if not same and not target.endswith("/"):
                folder = f"{source.rstrip('/')}/."
                said = f"COPY --from={origin} {source} {target}"
                self.note(item, said, f"if it is a folder, write {folder} below %files")

    def _image(self, name: str) -> Stage:
        for stage in self.outside:
            if stage.base == name:
                return stage
        self.outside.append(Stage(f"image{len(self.outside)}", name))
        return self.outside[-1]

    def _flags(self, item: Instruction, target: str) -> None:
        for flag, value in item.flags:
            if flag == "chmod":
                self.post(f"chmod -R {shlex.quote(value)} {shlex.quote(target)}")
            elif flag == "chown":
                self.note(item, f"--chown={value}", "whoever runs the image is its only user")
            elif flag not in ("from", "link"):
                self.note(item, f"{item.word} --{flag}", "name the files one by one below %files")

    def _paths(self, item: Instruction) -> list[str]:
        listed = item.listed()
        found = [shell(word) for word in words(item.flat)] if listed is None else listed
        return [self.static(item, word) for word in found if not word.startswith("<<")]

    def _target(self, path: str) -> str:
        joined = str(PurePosixPath(self.stage.folder) / path)
        return joined.rstrip("/") + "/" if path.endswith("/") or path == "." else joined

    def _file(self, source: str, target: str, layer: str = "") -> None:
        recipe = self.stage.recipe
        pairs = recipe.layer_files.setdefault(layer, []) if layer else recipe.files
        pairs.append([f'"{path}"' if " " in path else path for path in (source, target)])


def fetched(source: str) -> bool:
    """Whether ADD fetches it from somewhere."""
    return source.startswith(("http://", "https://", "git@")) or source.endswith(".git")


def unpacked(source: str) -> bool:
    """Whether ADD unpacks it."""
    return not fetched(source) and bool(ARCHIVE.search(source))
