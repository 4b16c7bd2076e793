"""COPY and ADD: files come into a folder of their own, and %post puts them in their places.

%files alone would put a folder inside of one that is there, come before every RUN, and follow
links.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import PurePosixPath

from .copy_sources import GIT, Sources, globbed
from .definition_quoting import OF_BASE, with_arguments
from .parse import Instruction, shell, words
from .stage import STAGED, Stage

USER_BASE = re.compile(r"^/\S*/\.local/?(?=\s)")  # what pip's --user fills in a builder's home
KNOWN_FLAGS = ("from", "link", "parents", "chown", "chmod", "checksum", "keep-git-dir", "unpack")
# A function of %post, as far as a stage uses it.
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


class Copies(Sources):
    """Reads the instructions that bring files."""

    def read_add(self, item: Instruction) -> None:
        """ADD: files, archives to unpack, addresses to fetch."""
        paths = self._paths(item)
        if item.heredocs or len(paths) < 2:
            self.read_copy(item)
            return
        for source in paths[:-1]:
            bring = self._bringing(item, source)
            if bring is None:
                self._from_here(item, [source], paths[-1])
            elif self._has_shell(item, source):
                self._put(item, paths[-1], bring(item, source))

    def _bringing(self, item: Instruction, source: str) -> Callable[[Instruction, str], str] | None:
        """What brings a source of ADD that COPY does not know; None for a file or folder."""
        if GIT.search(source):
            return self._clone
        if source.startswith(("http://", "https://")):
            return self._fetch
        unpacks = self._is_archive(source) and dict(item.flags).get("unpack") != "false"
        return self._unpack if unpacks else None

    def read_copy(self, item: Instruction) -> None:
        """COPY: from beside the Dockerfile, from a stage or image, or the text that follows."""
        origin, paths = dict(item.flags).get("from"), self._paths(item)
        if len(paths) < (1 if item.heredocs else 2):
            self.note(item, f"{item.word} {item.flat}", "it names no target; write it into %post")
        elif origin is not None:
            self._from_stage(item, self.expand(item, origin, self.known()), paths[:-1], paths[-1])
        else:
            if item.heredocs and self._has_shell(item, f"<<{item.heredocs[0].name}"):
                self._put(
                    item, paths[-1], *(self._write(item, heredoc) for heredoc in item.heredocs)
                )
            if paths[:-1]:
                self._from_here(item, paths[:-1], paths[-1])

    def _has_shell(self, item: Instruction, source: str) -> bool:
        """Whether commands can put a source in its place; a note where none can be run."""
        if self.stage.bare:
            what = f"{item.word} {source} into an image without a shell"
            self.note(item, what, "make it in an earlier stage, and COPY --from there")
        return not self.stage.bare

    def _from_here(self, item: Instruction, sources: list[str], target: str) -> None:
        paths = [path for source in sources for path in self._in_context(item, source)]
        if self.stage.bare:
            for path in paths:
                self._directly(item, path, self._target(item, target))
            return
        if not paths:
            return
        number = self._pack(item, paths)
        if "parents" in dict(item.flags):
            self._put(item, target, f"{STAGED}/{number}")
        else:
            self._put(item, target, *(str(PurePosixPath(STAGED, number, path)) for path in paths))

    def _directly(self, item: Instruction, path: str, target: str) -> None:
        """Below %files, for an image in which nothing can be run."""
        is_folder = (self.context / path).is_dir()
        # COPY takes what is in a folder, %files the folder.
        self.stage.files.append((path + ("/." if is_folder else ""), target))
        if is_folder:
            what = f"{item.word} {path} into an image without a shell"
            self.note(item, what, "links are followed, and .dockerignore has no effect")

    def _from_stage(self, item: Instruction, origin: str, sources: list[str], target: str) -> None:
        stage = self._origin(origin)
        if self.stage.bare:
            self._between_bare(item, stage, sources, self._target(item, target))
            for flag in {"chown", "chmod"} & set(dict(item.flags)):
                self.note(item, f"{item.word} --{flag}", "nothing can be run in this image")
            return
        self._put(item, target, *(self._from(stage, source) for source in sources))
        if self.has_user_base and USER_BASE.search(item.flat):
            text = self._target(item, target).rstrip("/")
            self.stage.environ.append(f'export PYTHONUSERBASE="{text}"')
            self.export("PYTHONUSERBASE", text)

    def _between_bare(
        self, item: Instruction, stage: Stage, sources: list[str], target: str
    ) -> None:
        """Copy from a stage into an image in which nothing can be run.

        A stage with commands of its own lays the files out in a folder; of another one %files takes
        each file.
        """
        pairs = self.stage.layers.setdefault(stage.name, [])
        if stage.works:
            stage.copies += 1
            folder = f"{STAGED}/{stage.copies}"
            paths = " ".join(globbed(str(PurePosixPath("/", source))) for source in sources)
            stage.install.append(f"copy 0:0 {with_arguments(folder + target)} {paths}")
            pairs.append((f"{folder}/*", "/"))
            return
        for source in sources:
            pairs.append((str(PurePosixPath("/", source)), target))
            line = f"COPY --from={stage.base} {source} {target}"
            self.note(item, line, f"if it is a folder, write {source.rstrip('/')}/* below %files")

    # How they come to their place.

    def _put(self, item: Instruction, target: str, *paths: str) -> None:
        flags = dict(item.flags)
        for flag in flags:
            if flag not in KNOWN_FLAGS:
                self.note(item, f"{item.word} --{flag}", "nothing is left out: remove it in %post")
        sources = " ".join(map(globbed, paths))
        owner = _owner(self.static(item, flags.get("chown", ""), in_post=True))
        if "chown" in flags:
            self.post(f"chown -hR {owner} {sources}")
        if "chmod" in flags:
            self.post(f"chmod -R {with_arguments(self.static(item, flags['chmod']))} {sources}")
        self.post(f"copy {owner} {with_arguments(self._target(item, target))} {sources}")

    def _paths(self, item: Instruction) -> list[str]:
        listed = item.listed()
        given = [shell(word) for word in words(item.flat)] if listed is None else listed
        heredocs = {f"<<{document.name}" for document in item.heredocs}
        names = [
            word for word in given if word.lstrip("0123456789").replace("<<-", "<<") not in heredocs
        ]
        bare = self.stage.bare
        return [
            *(self.static(item, word) for word in names[:-1]),
            *(self.static(item, word, in_post=not bare) for word in names[-1:]),
        ]

    def _target(self, item: Instruction, path: str) -> str:
        if not path.startswith(("/", "{{", OF_BASE)) and not self.stage.knows_folder:
            what = f"{item.word} to {path} without a WORKDIR"
            self.note(item, what, "here it is below /; Docker takes the base's working directory")
        made = self.below(path)
        return made.rstrip("/") + "/" if path.endswith("/") or path in (".", "/.") else made


def _owner(text: str) -> str:
    """Return the owner for chown; a user without a group gets that user's own group."""
    user, _, group = text.partition(":")
    if not user and not group:
        return "0:0"
    if group:
        return with_arguments(f"{user}:{group}")
    return with_arguments(f"{user}:{user}" if user.isdecimal() else f"{user}:")
