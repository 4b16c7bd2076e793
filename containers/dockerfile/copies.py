"""COPY and ADD: files come into a folder of their own, and %post puts them in their places.

%files alone would put a folder inside of one that is there, come before every RUN, and follow
links. %setup packs what lies beside the Dockerfile, with links and modes, as Docker does.
"""

from __future__ import annotations

import os
import re
import shlex
import tarfile
from pathlib import PurePosixPath

from runners.core.errors import Refused

from .ignore import matches
from .parse import Heredoc, Instruction, shell, words
from .stage import HIDDEN, OPEN, PLACEHOLDER, STAGED, Reader, Stage, with_arguments

ARCHIVE = re.compile(r"\.(?:tar|tar\.\w+|tgz|tbz2?|txz)$")
GIT = re.compile(r"^(?:git@|git://|ssh://)|^https?://[^#?]*\.git(?:[#?]|$)")
GLOB = re.compile(r"[*?[]")
HERE = f'"$APPTAINER_ROOTFS{STAGED}/{{}}"'
# Functions of the sections, as far as a stage uses them.
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
COPY = """\
# OWNER TARGET SOURCES...: what is in a folder joins what is in the target
    copy() (
        owner=$1 target=$2; shift 2
        for source in "$@"; do
            if [ -d "$source" ]; then
                folder "$target"
                for each in "$source"/* "$source"/.[!.]* "$source"/..?*; do
                    [ ! -e "$each" ] && [ ! -h "$each" ] ||
                        cp -a --remove-destination "$each" "$target/"
                done
            else
                case $target in */) folder "$target" ;; *) folder "$(dirname "$target")" ;; esac
                cp -a --remove-destination "$source" "$target"
            fi
        done
    )
    folder() {
        [ -d "$1" ] || { folder "$(dirname "$1")"; mkdir "$1"; chown "$owner" "$1"; }
    }"""


class Copies(Reader):
    """Reads the instructions that bring files."""

    def read_add(self, item: Instruction) -> None:
        """ADD: files, archives to unpack, addresses to fetch."""
        paths, flags = self._paths(item), dict(item.flags)
        if item.heredocs or len(paths) < 2:
            self.read_copy(item)
            return
        for source in paths[:-1]:
            is_git = bool(GIT.search(source))
            if self.stage.bare and (is_git or self._is_archive(source)):
                self._into_bare(item, source, paths[-1])
            elif is_git:
                self._put(item, paths[-1], self._clone(item, source))
            elif source.startswith(("http://", "https://")):
                self._put(item, paths[-1], self._fetch(item, source))
            elif self._is_archive(source) and flags.get("unpack") != "false":
                self._put(item, paths[-1], self._unpack(item, source))
            else:
                self._from_here(item, [source], paths[-1])

    def _into_bare(self, item: Instruction, source: str, target: str) -> None:
        """An archive into an image in which nothing can be run: it is often the whole system."""
        if self.stage.base != "scratch" or "://" in source or GIT.search(source):
            what = f"ADD {source} into an image without a shell"
            self.note(item, what, "fetch or unpack it in an earlier stage, and COPY --from there")
            return
        # Nothing is in the image yet, so that no link of it is followed.
        to = f'"$APPTAINER_ROOTFS"{with_arguments(self._target(item, target))}'
        for path in self._in_context(item, source):
            self.stage.setup += [f"mkdir -p {to}", f"tar -xpf {with_arguments(path)} -C {to}"]
        self.stage.unpacked = True

    def read_copy(self, item: Instruction) -> None:
        """COPY: from beside the Dockerfile, from a stage or image, or the text that follows."""
        origin, paths = dict(item.flags).get("from"), self._paths(item)
        if len(paths) < (1 if item.heredocs else 2):
            self.note(item, f"{item.word} {item.flat}", "it names no target; write it into %post")
        elif origin is not None:
            self._from_stage(item, self.expand(item, origin, self.known()), paths[:-1], paths[-1])
        else:
            written = [self._write(item, document, paths[-1]) for document in item.heredocs]
            if written:
                self._put(item, paths[-1], *written)
            if paths[:-1]:
                self._from_here(item, paths[:-1], paths[-1])

    def known(self) -> dict[str, str]:
        """The variables with a value where no argument of the build can stand."""
        return {**self.stage.arguments, **self.stage.variables}

    def _number(self) -> str:
        self.stage.copies += 1
        return str(self.stage.copies)

    # Where files come from: each returns the path that they have until they are in their place.

    def _write(self, item: Instruction, document: Heredoc, target: str) -> str:
        text = OPEN.sub(HIDDEN, document.body)
        if not document.raw:
            text = self.static(item, text)
        path = f"{STAGED}/{self._number()}/{document.name}"
        if self.stage.bare:
            return path
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
        if self.stage.bare:
            return source
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
        if source.startswith(("http://", "https://")):
            return False
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

    def _from_here(self, item: Instruction, sources: list[str], target: str) -> None:
        paths = [path for source in sources for path in self._in_context(item, source)]
        if self.stage.bare:
            for path in paths:
                self._directly(item, path, self._target(item, target))
            return
        number = self._pack(item, paths)
        if "parents" in dict(item.flags):
            self._put(item, target, f"{STAGED}/{number}")
        else:
            self._put(item, target, *(str(PurePosixPath(STAGED, number, path)) for path in paths))

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
            words = [shlex.join(left)] * bool(left) + [_words(list(map(_dashed, others)))]
            self.stage.setup.append(f"take {number} {' '.join(words)}")
        return number

    def _left_out(self, item: Instruction, path: str) -> list[str]:
        """What of a folder is not copied, by the names that tar gives it."""
        if not (self.context / path).is_dir():
            return []
        found = self.ignored.below(self.context, path)
        if found:
            self.note(item, f"{item.word} {path}", ".dockerignore leaves out what is there now")
        if self.left_out and path == ".":
            found.append(self.left_out)
        return [f"./{name}" if path == "." else _dashed(name) for name in found]

    def _directly(self, item: Instruction, path: str, target: str) -> None:
        """Below %files, for an image in which nothing can be run."""
        is_folder = (self.context / path).is_dir()
        # COPY takes what is in a folder, %files the folder.
        self.stage.files.append((path + "/." * is_folder, target))
        if is_folder:
            what = f"{item.word} {path} into an image without a shell"
            self.note(item, what, "links are followed, and .dockerignore is not heard")

    def _in_context(self, item: Instruction, source: str) -> list[str]:
        """The paths that a source stands for. Refused when one leads out of the context."""
        path = os.path.normpath(source.lstrip("/") or ".")
        known = PLACEHOLDER.sub(lambda match: self.stage.arguments.get(match[1], ""), path)
        known = os.path.normpath(known.lstrip("/") or ".")
        if known.startswith("..") or not self.is_inside(known):
            self._outside(item, known)
        found = matches(self.context, known)
        for each in found:
            if not self.is_inside(each):
                self._outside(item, each)
            if each in self.ignored:
                self.note(item, f"{source} is in .dockerignore", "Docker does not find it")
        if not found:
            self.note(item, f"{source} is not beside the Dockerfile", "it must be when built")
        return [path] if known != path or not found else found

    def _outside(self, item: Instruction, path: str) -> None:
        raise Refused(
            f"line {item.line}: {item.word} {path} leads out of the Dockerfile's folder",
            f"{path} is {os.path.realpath(self.context / path)}",
            "put a copy of the file beside the Dockerfile",
        )

    def _from_stage(self, item: Instruction, origin: str, sources: list[str], target: str) -> None:
        found = self._origin(origin)
        if self.stage.bare:
            self._between_bare(item, found, sources, self._target(item, target))
            for flag in {"chown", "chmod"} & set(dict(item.flags)):
                self.note(item, f"{item.word} --{flag}", "nothing can be run in this image")
            return
        self._put(item, target, *(self._from(found, source) for source in sources))

    def _from(self, found: Stage, source: str) -> str:
        """Bring files of a stage into a new folder; return the path that they have there."""
        number, name = self._number(), PurePosixPath(source).name or "root"
        folder = f"{STAGED}/{number}"
        to = f"{folder}/" if GLOB.search(name) else f"{folder}/{name}"
        pairs = self.stage.layers.setdefault(found.name, [])
        pairs.append((str(PurePosixPath("/", source)), to))
        return f"{folder}/{name}"

    def staged(self, item: Instruction, origin: str | None, source: str) -> str:
        """The path at which a file or folder lies that RUN mounts."""
        if origin is not None:
            return self._from(self._origin(self.expand(item, origin, self.known())), source)
        (path,) = self._in_context(item, source)[:1]
        return str(PurePosixPath(STAGED, self._pack(item, [path]), path))

    def _origin(self, origin: str) -> Stage:
        """A stage by name or number, or an image."""
        number = int(origin) if origin.isdecimal() else len(self.stages)
        if number < len(self.stages) - 1:
            return self.stages[number]
        if (found := self.named(origin)) and found is not self.stage:
            return found
        for stage in self.outside:
            if stage.base == origin:
                return stage
        self.outside.append(Stage(f"image{len(self.outside)}", origin))
        return self.outside[-1]

    def _between_bare(
        self, item: Instruction, found: Stage, sources: list[str], target: str
    ) -> None:
        """From a stage into an image in which nothing can be run: laid out in that stage before."""
        pairs = self.stage.layers.setdefault(found.name, [])
        if found.works:
            found.copies += 1
            folder = f"{STAGED}/{found.copies}"
            paths = " ".join(_globbed(str(PurePosixPath("/", source))) for source in sources)
            found.install.append(f"copy 0:0 {with_arguments(folder + target)} {paths}")
            pairs.append((f"{folder}/*", "/"))
            return
        for source in sources:
            pairs.append((str(PurePosixPath("/", source)), target))
            said = f"COPY --from={found.base} {source} {target}"
            self.note(item, said, f"if it is a folder, write {source.rstrip('/')}/* below %files")

    # How they come to their place.

    def _put(self, item: Instruction, target: str, *paths: str) -> None:
        flags = dict(item.flags)
        if self.stage.bare:
            what = f"{item.word} {item.flat} into an image without a shell"
            self.note(item, what, "make the file in an earlier stage, and COPY --from there")
            return
        for flag in flags:
            if flag not in ("from", "link", "parents", "chown", "chmod", *OF_ADD):
                self.note(item, f"{item.word} --{flag}", "nothing is left out: remove it in %post")
        sources, owner = (
            " ".join(map(_globbed, paths)),
            _owner(self.static(item, flags.get("chown", ""))),
        )
        if "chown" in flags:
            self.post(f"chown -hR {owner} {sources}")
        if "chmod" in flags:
            self.post(f"chmod -R {with_arguments(self.static(item, flags['chmod']))} {sources}")
        self.post(f"copy {owner} {with_arguments(self._target(item, target))} {sources}")

    def _paths(self, item: Instruction) -> list[str]:
        listed = item.listed()
        found = [shell(word) for word in words(item.flat)] if listed is None else listed
        heredocs = {f"<<{document.name}" for document in item.heredocs}
        names = [
            word for word in found if word.lstrip("0123456789").replace("<<-", "<<") not in heredocs
        ]
        return [self.static(item, word) for word in names]

    def _target(self, item: Instruction, path: str) -> str:
        if not path.startswith(("/", "{{")) and not self.stage.has_folder:
            what = f"{item.word} to {path} without a WORKDIR"
            self.note(item, what, "here it is below /; Docker takes the base's working directory")
        made = self.below(path)
        return made.rstrip("/") + "/" if path.endswith("/") or path in (".", "/.") else made


OF_ADD = ("checksum", "keep-git-dir", "unpack")


def _owner(text: str) -> str:
    """For chown: a user alone brings its own group."""
    user, _, group = text.partition(":")
    if not user and not group:
        return "0:0"
    if group:
        return with_arguments(f"{user}:{group}")
    return with_arguments(f"{user}:{user}" if user.isdecimal() else f"{user}:")


def _dashed(path: str) -> str:
    return f"./{path}" if path.startswith("-") else path


def _words(paths: list[str]) -> str:
    return " ".join(map(with_arguments, paths))


def _globbed(path: str) -> str:
    """A path for a shell, which replaces its * and ?."""
    return "".join(
        part if GLOB.match(part) else with_arguments(part)
        for part in re.split(r"([*?]|\[[^]]*\])", path)
        if part
    )
