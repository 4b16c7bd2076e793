"""RUN: each in a shell of its own, which ends as Docker's does, and what it mounts.

%post is one script that ends at the first command that fails, but not where `a && b` fails at a.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from .copies import Copies
from .definition_quoting import NO_TEXT, PLACEHOLDER, joined, quoted, with_arguments
from .parse import HEREDOC, SHELL, Instruction
from .relative import takes_files
from .stage import STAGED
from .variable_substitution import Resolve, apply, substitute

# A list of commands, or one that changes the shell it runs in.
LIST = re.compile(r"&&|\|\||[;&|(){}`]|\n|\bif\b|\bfor\b|\bwhile\b|\bcase\b")
CHANGES_SHELL = re.compile(
    r"(?:^|[;&|(\n]\s*)(?:cd|export|set|umask|exit|exec|source|\.|trap|eval|unset)(?:\s|$)"
    r"|^\s*(?:\w+=\S*\s*)+$",
    re.MULTILINE,
)
MORE_THAN_AND = re.compile(r";|\n|(?<!&)&(?!&)|`|\bif\b|\bfor\b|\bwhile\b|\bcase\b|[{}()]")
# Quoted text, and what a shell puts in.
VALUES = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"|\$\{[^}]*\}|\$\([^()]*\)")
CONTINUED = re.compile(r"\\\n\s*")
# A shell keeps the backslash of a continued line in these, which Docker takes out before.
KEEPS_BACKSLASH = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"|\\.|(?<!\S)#.*", re.DOTALL)
INTERPRETER = re.compile(r"#!.+")
# What sh fails at where it is not bash; BusyBox's knows all but the first two.
NOT_IN_BUSYBOX = re.compile(r"[<>]\(|<<<")
OF_BASH = re.compile(
    rf"{NOT_IN_BUSYBOX.pattern}|(?:^|[;&|(]\s*|\b(?:then|do)\s)source\s|\[\[\s|\bpipefail\b",
    re.MULTILINE,
)
SH_IS_BUSYBOX = re.compile(r"alpine|busybox")
SH_IS_BASH = re.compile(r"alma|centos|fedora|rocky|redhat|\bubi\d|amazonlinux|opensuse")
# Of pip, and of Jupyter, whose kernels and extensions it puts into a home too.
USER_INSTALL = re.compile(
    r"(\b(?:pip[\d.]*|ipykernel|kernelspec|\w+extension)\s+(?:install|enable)\b[^\n;&|]*?)\s--user\b"
)
# A framework's version, as pip, conda and names of images have it.
FRAMEWORK = re.compile(
    r"\b(pytorch|torch|tensorflow)(?:-gpu|-cpu)?(?:/\w+)?\s*(?:>=?\s*[\d.]+\s*,\s*)?"
    r"(==|~=|<=?|=|:)\s*v?(\d+(?:\.\d+)+)"
)
NEWEST = {"torch": (2, 1), "tensorflow": (2, 16)}  # which Horovod 0.28.1 (June 2023) does not know
CALENDAR = 15  # NVIDIA's images have a year and month
HOROVOD = re.compile(r"\bpip[\d.]*\s+(?:install|wheel)\b[^;&|]*?\s['\"]?horovod(?:[\[=<>~! '\"]|$)")
# Empties the folders that Apptainer binds from the machine while it builds.
EMPTIES_TMP = re.compile(r"\brm\s(?:[^;&|\n]*\s)?[\"']?/(?:var/)?tmp/?\*")
# What a mount hides comes back after it; in Docker nothing of it is in the image.
MOUNT = """\
mounted() {
        [ ! -e "$1" ] || mv "$1" "$1.hidden"
        mkdir -p "$(dirname "$1")"
        if [ "$2" ]; then cp -a "$2" "$1"; else mkdir "$1"; fi
    }
    unmounted() {
        rm -rf "$1"
        [ ! -e "$1.hidden" ] || mv "$1.hidden" "$1"
    }"""
SECRET = "hand it over while it is built: export APPTAINERENV_NAME=..., and store nothing"  # noqa: S105  none is here


class Runs(Copies):
    """Reads RUN."""

    def read_run(self, item: Instruction) -> None:
        self._look(item)
        mounts = [self._mount(item, value) for flag, value in item.flags if flag == "mount"]
        for flag, value in item.flags:
            if flag != "mount":
                self.note(item, f"RUN --{flag}={value}", "%post has the host's network and rights")
        targets = [(target, source) for target, source in mounts if target]
        for target, source in targets:
            self.post(f"mounted {with_arguments(target)} {with_arguments(source)}")
        if targets:
            self.post(f"cd {with_arguments(self.stage.folder)}")
        self.post(self._command(item))
        for target, _ in reversed(targets):
            self.post(f"unmounted {with_arguments(target)}")

    def _command(self, item: Instruction) -> str:
        if (listed := item.listed()) is not None:
            return self._for_all(joined(listed))
        text = self._for_all(_one_line(item.text))
        if HEREDOC.fullmatch(text.strip()) and item.heredocs:
            return self._script(item)
        whole = "\n".join([text, *(f"{part.body}\n{part.name}" for part in item.heredocs)])
        if self.stage.shell != SHELL or NO_TEXT.search(whole):
            return f"{shlex.join(self.stage.shell)} {quoted(whole)}"
        return _apart(text, whole)

    def _for_all(self, text: str) -> str:
        """The text without --user, unless another stage takes what it installs."""
        return text if self.has_user_base else USER_INSTALL.sub(r"\1", text)

    def _script(self, item: Instruction) -> str:
        """A here-document that is the command itself."""
        body = self._for_all(item.heredocs[0].body)
        if not INTERPRETER.match(body):
            return f"{shlex.join(self.stage.shell)} {quoted(body)}"
        file = f"{STAGED}/run-{item.line}"
        write = f"mkdir -p {STAGED}\n    printf '%s\\n' {quoted(body)} > {file}"
        return f"{write}\n    chmod 755 {file}\n    {file}"

    def _mount(self, item: Instruction, value: str) -> tuple[str, str]:
        """Where something is mounted, "" for what cannot be, and the files to see there."""
        parts = dict(part.partition("=")[::2] for part in value.split(","))
        target = parts.get("target") or parts.get("dst") or parts.get("destination") or ""
        kind = parts.get("type", "bind")
        if kind in ("secret", "ssh") or not target:
            self.note(item, f"RUN --mount={value}", SECRET)
            return "", ""
        path = self.below(self.static(item, target))
        if kind != "bind":
            return path, ""
        source = self.static(item, parts.get("source") or parts.get("src") or "/")
        if path == self.stage.folder or path == "/":
            self.note(item, f"RUN --mount={value}", "it hides the working directory: use COPY")
            return "", ""
        return path, self.staged(item, parts.get("from"), source)

    def _look(self, item: Instruction) -> None:
        """Say what a command does that comes to nothing, or fails late."""
        command = joined(item.listed() or []) or item.flat
        text = " ".join([command, *(part.body for part in item.heredocs)])
        if self._for_all(text) != text:
            why = "left out, so that all users have it: here it would be in root's home"
            self.note(item, "install --user", why)
        if self._needs_bash(item, text):
            why = 'here it runs in sh, whatever SHELL the base has; write SHELL ["/bin/bash", "-c"]'
            self.note(item, "RUN with what only bash knows", f"{why} before it")
        if EMPTIES_TMP.search(CONTINUED.sub(" ", text)):
            why = "with runner build /tmp is an own one; apptainer build alone binds the machine's"
            self.note(item, "rm of all in /tmp", why)
        if HOROVOD.search(f" {CONTINUED.sub(' ', text)} ") and (why := self._horovod(text)):
            self.note(item, "pip install horovod", why)
        if not self.stage.knows_folder and takes_files(CONTINUED.sub(" ", text)):
            what = "RUN in the base's working directory"
            self.note(item, what, "here it is /: write WORKDIR before it, if the base has another")

    def _needs_bash(self, item: Instruction, text: str) -> bool:
        if self.stage.shell != SHELL or item.listed() is not None or item.heredocs:
            return False
        unknown = NOT_IN_BUSYBOX if SH_IS_BUSYBOX.search(self.stage.base) else OF_BASH
        needs = unknown.search(VALUES.sub("''", text)) is not None
        return needs and not SH_IS_BASH.search(self.stage.base)

    def _horovod(self, text: str) -> str:
        """Say why Horovod does not compile there, "" where nothing speaks against it."""
        before = "\n".join([*self.stage.install, text])
        why = []
        if not re.search(r"\bcmake\b", before):
            why.append("there is no cmake")
        if "--no-build-isolation" not in before:
            why.append("pip's build isolation hides the framework from it (--no-build-isolation)")
        too_new = self._too_new(before)
        fails = "it fails" if why or too_new else "it may fail"
        if too_new is None:
            too_new = "torch 2.1 or newer, TensorFlow 2.16 or newer"
        if too_new:
            why.append(f"Horovod 0.28.1, the last release, does not compile with {too_new}")
        after = "Leave the line out, and afterwards: runner build --from my.sif --horovod"
        return f"{fails}: {'; '.join(why)}. {after}" if why else ""

    def _too_new(self, text: str) -> str | None:
        """Return the frameworks that Horovod 0.28.1 does not know, None for no version."""
        known = self.known()
        plain_text = PLACEHOLDER.sub(lambda found: known.get(found[1], ""), text)
        named = FRAMEWORK.findall(f"{self.stage.base}\n{substitute(plain_text, _of(known))}")
        versions = [
            (name.removeprefix("py"), text, tuple(map(int, text.split("."))), sign)
            for name, sign, text in named
            if int(text.split(".")[0]) < CALENDAR
        ]
        new = [f"{n} {t}" for n, t, v, sign in versions if v >= NEWEST[n] and "<" not in sign]
        return " and ".join(dict.fromkeys(new)) if versions else None


def _of(known: Mapping[str, str]) -> Resolve:
    return lambda name, operator, word: apply(known.get(name), operator, word)


def _one_line(text: str) -> str:
    """The text as it is; without continued lines where the shell reads another text than Docker."""
    parts = KEEPS_BACKSLASH.findall(text)
    return text.replace("\\\n", "") if any(p[0] in "'#" and "\\\n" in p for p in parts) else text


def _apart(text: str, whole: str) -> str:
    """In a shell of its own, if there is more than one command or it changes the shell.

    A comment at the end or a here-document must not swallow the parenthesis.
    """
    flat = CONTINUED.sub(" ", text)
    without = VALUES.sub("''", flat)
    if not LIST.search(without) and not CHANGES_SHELL.search(flat):
        return whole
    start = "set +e" if MORE_THAN_AND.search(without) else ""
    if "#" in text or whole != text or "\n" in flat:
        return f"({start}\n{whole}\n    )"
    return f"({start}; {whole})" if start else f"({whole})"
