"""What .dockerignore keeps out of the files that a Dockerfile copies.

Docker's documentation, "Build context", .dockerignore files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

# Of a pattern: ** with what is before the next name, *, ?, a set, an escaped character.
PART = re.compile(r"\*\*/?|\*|\?|\[[^]]*\]|\\.|.")
WILD = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


@dataclass(frozen=True)
class Ignored:
    """The patterns of one file, with whether each takes files in again; the last that fits wins."""

    patterns: tuple[tuple[re.Pattern[str], bool], ...]

    @classmethod
    def read(cls, dockerfile: Path) -> Ignored:
        """Those of `Dockerfile.dockerignore`, or of `.dockerignore` in the same folder."""
        special, common = Path(f"{dockerfile}.dockerignore"), dockerfile.parent / ".dockerignore"
        file = special if special.is_file() else common
        return cls.parse(file.read_text(encoding="utf-8") if file.is_file() else "")

    @classmethod
    def parse(cls, text: str) -> Ignored:
        patterns = []
        for line in filter(None, map(str.strip, text.splitlines())):
            again = line.startswith("!")
            pattern = str(PurePosixPath(line[again:].strip().lstrip("/")))
            if not line.startswith("#") and pattern != ".":
                patterns.append((re.compile(_expression(pattern)), again))
        return cls(tuple(patterns))

    def __contains__(self, path: str) -> bool:
        """Whether a path, or a folder that it is in, is kept out."""
        parts, kept_out = PurePosixPath(path).parts, False
        below = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
        for pattern, again in self.patterns:
            if any(map(pattern.fullmatch, below)):
                kept_out = not again
        return kept_out

    def below(self, context: Path, folder: str) -> list[str]:
        """The paths to leave out below a folder: as few as say it."""
        return list(self._walk(context, folder)[0]) if self.patterns else []

    def _walk(self, context: Path, folder: str) -> tuple[list[str], bool]:
        """What to leave out in a folder, and whether that is everything."""
        left_out, everything = [], True
        takes_in = any(again for _, again in self.patterns)
        for entry in sorted((context / folder).iterdir()):
            path = str(PurePosixPath(folder) / entry.name)
            whole = path in self
            if entry.is_dir() and not entry.is_symlink() and (takes_in or not whole):
                inner, all_inner = self._walk(context, path)
                whole = whole and all_inner
                left_out += [] if whole else inner
            left_out += [path] if whole else []
            everything = everything and whole
        return left_out, everything


def _expression(pattern: str) -> str:
    def translated(match: re.Match[str]) -> str:
        part = match[0]
        return WILD.get(part) or (part if part.startswith("[") else re.escape(part[-1]))

    return PART.sub(translated, pattern)


def matches(context: Path, pattern: str) -> list[str]:
    """The paths in the context that a pattern of COPY fits, also those that begin with a dot."""
    if not re.search(r"[*?[]", pattern):
        return [pattern] if (context / pattern).exists() else []
    paths = [""]
    for name in PurePosixPath(pattern).parts:
        fits = re.compile(_expression(name))
        paths = [
            str(PurePosixPath(folder) / entry.name)
            for folder in paths
            if (context / folder).is_dir()
            for entry in sorted((context / folder).iterdir())
            if fits.fullmatch(entry.name)
        ]
    return paths
