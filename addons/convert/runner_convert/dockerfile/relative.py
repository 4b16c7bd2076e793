"""Commands that take files of the folder in which they run: RUN in a working directory."""

from __future__ import annotations

import re
import shlex
from itertools import takewhile

# Commands that put files where they run, or take what is there without naming it.
HERE = re.compile(
    r"(?:git\s+clone|wget|unzip|curl\s(?:.*\s)?-\w*[oO]|pip[\d.]*\s+install\s+-e)\s"
    r"(?!(?:.*\s)?(?:[\"']?[/~]|-\w*O\s*-))"
    r"|(?:make|cmake|ninja|poetry\s+install|pipenv\s+(?:install|sync)|npm\s+(?:ci|install|run)"
    r"|yarn|cargo\s+build|go\s+build|pytest)\b(?!.*\s-\w*C\s*/)"
)
INSTALLERS = ("apt", "apt-get", "apk", "conda", "dnf", "gem", "mamba", "npm", "yum")
PIP = re.compile(r"pip[\d.]*")
PYTHON = re.compile(r"python[\d.]*")
SHELLS = ("bash", "sh", "dash", "source", ".")
# Of these all words are files, but for options, modes and owners.
WITH_FILES = ("cat", "chmod", "chown", "cp", "dpkg", "install", "mkdir", "mv", "rm", "tar", "touch")
FIRST_IS_NONE = ("chmod", "chown")
OF_FILES = ("-r", "--requirement", "-c", "--constraint", "-e", "--editable")
OF_LISTS = ("-f", "--file")
GLUED = re.compile(r"-[rc](?=[\w.])|--(?:requirement|constraint|file)=")
PREFIXES = ("exec", "sudo", "then", "do", "time", "env", "uv", "!")
SETTING = re.compile(r"[A-Za-z_]\w*=")
SEPARATORS = re.compile(r"[;&|\n()]+")
REDIRECTED = re.compile(r"(?<![<&\d])(?:\d?>>?|(?<!<)<(?!<))\s*([\w.][\w./-]*)")
QUOTED = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"")
ELSEWHERE = re.compile(r"(?:cd|pushd)\s+[\"']?[/~$]")


def takes_files(text: str) -> bool:
    """Whether a command takes or puts files where the text begins to run."""
    parts = (part.strip() for part in SEPARATORS.split(text))
    return any(map(_takes, takewhile(lambda part: not ELSEWHERE.match(part), parts)))


def _takes(part: str) -> bool:
    if HERE.match(part) or REDIRECTED.search(QUOTED.sub("''", part)):
        return True
    try:
        words = shlex.split(part, comments=True)
    except ValueError:  # a quote that another part closes
        words = part.split()
    while words and (SETTING.match(words[0]) or words[0] in PREFIXES):
        del words[0]
    return bool(words) and (words[0].startswith(("./", "../")) or _of_command(*words))


def _of_command(name: str, *words: str) -> bool:
    files = [word for word in words if word.startswith(("./", "../")) or word in (".", "..")]
    if name in ("cd", "pushd"):
        return bool(words)
    if PIP.fullmatch(name) or (PYTHON.fullmatch(name) and words[:2] == ("-m", "pip")):
        return any(map(_is_file, _values(words, OF_FILES))) or any(map(_is_project, words))
    if name in INSTALLERS:
        return bool(files) or any(map(_is_file, _values(words, OF_LISTS)))
    if name == "sed":
        return "-i" in words and _is_path(words[-1])
    if PYTHON.fullmatch(name) or name in SHELLS:
        program = next((word for word in words if word[:1] != "-"), "")
        return "-c" not in words and "-m" not in words and _is_file(program)
    if name in WITH_FILES:
        flags = name in FIRST_IS_NONE or (name == "tar" and words[:1] and words[0].isalpha())
        return any(map(_is_path, [word for word in words if word[:1] != "-"][bool(flags) :]))
    return bool(files)


def _values(words: tuple[str, ...], options: tuple[str, ...]) -> list[str]:
    """Return the values of options that name a file, as -r FILE, -rFILE and --file=FILE."""
    apart = [after for word, after in zip(words, words[1:]) if word in options]
    return apart + [GLUED.sub("", word) for word in words if GLUED.match(word)]


def _is_project(word: str) -> bool:
    """Whether pip gets a folder, or a wheel that is no address."""
    folder = re.match(r"\.{1,2}(?:$|[/\[])", word) is not None
    return folder or (word.endswith(".whl") and _is_file(word))


def _is_file(word: str) -> bool:
    return bool(word) and word[0] not in "-/~$" and "://" not in word


def _is_path(word: str) -> bool:
    """Whether an argument is a file's name: no mode, owner or pattern."""
    plain = re.match(r"[\w.]", word) is not None and not word.isdecimal()
    return plain and not re.search(r"[=@*$]|://", word)
