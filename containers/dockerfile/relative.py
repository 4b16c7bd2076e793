"""Commands that take files of the folder in which they run: RUN in a working directory."""

from __future__ import annotations

import re
import shlex
from itertools import takewhile

# Commands that put files where they run, or take what is there without naming it.
HERE = re.compile(
    r"(?:git\s+clone|wget|unzip|curl\s(?:.*\s)?-\w*[oO]|pip[\d.]*\s+install\s+-e)\s"
    r"(?!(?:.*\s)?(?:[\"']?[/~]|-\w*O\s*-))|(?:make|cmake|npm\s+(?:ci|install))\b(?!.*\s-C\s*/)"
)
INSTALLERS = ("apt", "apt-get", "apk", "conda", "dnf", "gem", "mamba", "npm", "yum")
PIP = re.compile(r"pip[\d.]*")
PYTHON = re.compile(r"python[\d.]*")
SHELLS = ("bash", "sh", "dash", "source", ".")
# Of these all words are files, but for options, modes and owners.
WITH_FILES = ("cat", "chmod", "chown", "cp", "dpkg", "install", "mkdir", "mv", "rm", "tar", "touch")
FIRST_IS_NONE = ("chmod", "chown")
OF_FILES = ("-r", "--requirement", "-c", "--constraint", "-e", "--editable")
SETTING = re.compile(r"[A-Za-z_]\w*=")
SEPARATORS = re.compile(r"[;&|\n]+")
REDIRECTED = re.compile(r"(?<![<&\d])\d?>>?\s*([\w.][\w./-]*)")


def takes_files(text: str) -> bool:
    """Whether a command takes or puts files where the text begins to run."""
    parts = (part.strip() for part in SEPARATORS.split(text))
    stays = takewhile(lambda part: not re.match(r"(?:cd|pushd)\s", part), parts)
    return any(_takes(part) for part in stays)


def _takes(part: str) -> bool:
    if HERE.match(part) or REDIRECTED.search(part):
        return True
    try:
        words = shlex.split(part, comments=True)
    except ValueError:  # a quote that another part closes
        words = part.split()
    while words and (SETTING.match(words[0]) or words[0] in ("exec", "sudo", "then", "do", "(")):
        del words[0]
    return bool(words) and (words[0].startswith(("./", "../")) or _of_command(*words))


def _of_command(name: str, *words: str) -> bool:
    files = [word for word in words if word.startswith(("./", "../")) or word in (".", "..")]
    if PIP.fullmatch(name) or (PYTHON.fullmatch(name) and words[:2] == ("-m", "pip")):
        values = {after for word, after in zip(words, words[1:]) if word in OF_FILES}
        named = [word.partition("=")[2] for word in words if word.startswith("--requirement=")]
        return any(_is_file(each) for each in (*values, *named)) or any(map(_is_project, words))
    if name in INSTALLERS:
        lists = {after for word, after in zip(words, words[1:]) if word in ("-f", "--file")}
        return bool(files) or any(map(_is_file, lists))
    if name == "sed":
        return "-i" in words and _is_path(words[-1])
    if PYTHON.fullmatch(name) or name in SHELLS:
        program = next((word for word in words if word[:1] != "-"), "")
        return "-c" not in words and "-m" not in words and _is_file(program)
    if name in WITH_FILES:
        plain = [word for word in words if word[:1] != "-"][name in FIRST_IS_NONE :]
        return any(map(_is_path, plain))
    return bool(files)


def _is_project(word: str) -> bool:
    return re.match(r"\.{1,2}(?:$|[/\[])", word) is not None


def _is_file(word: str) -> bool:
    return bool(word) and word[0] not in "-/~$" and "://" not in word


def _is_path(word: str) -> bool:
    """Whether an argument is a file's name: no number, flag letters or pattern."""
    plain = re.match(r"[\w.]", word) is not None and not word.isdecimal()
    return plain and (len(word) > 3 or "." in word) and not re.search(r"[=@*$]|://", word)
