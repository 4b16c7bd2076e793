"""Definition files: what they ask for, what is wrong with them, and those made from an image.

Section and header names: Apptainer's user guide, "Definition Files".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from runners.core.digest import sha256
from runners.core.disk_space import Needs
from runners.core.errors import UsageError, nearest

SECTIONS = (
    *("arguments", "setup", "files", "pre", "post", "environment", "labels", "runscript"),
    *("startscript", "test", "help", "appenv", "apphelp", "appinstall", "appfiles"),
    *("applabels", "apprun", "appstart", "apptest"),
)
HEADERS = (
    *("bootstrap", "from", "stage", "fingerprints", "mirrorurl", "updateurl", "osversion"),
    *("include", "includecmd", "otherurl", "registry", "namespace", "library", "product"),
    *("user", "regcode", "productpgp", "registerurl", "modules", "confurl", "setopt"),
)
ARGUMENT = re.compile(r"^\s*([A-Za-z_]\w*)\s*=(.*)$")
PLACEHOLDER = re.compile(r"\{\{\s*(\w+)\s*\}\}")
# NOTE: to Apptainer (1.4) a placeholder is in a comment when this stands before it in its line,
# or between it and the one before.
COMMENT = re.compile(r"#[^!]")
HEADER = re.compile(r"^\s*([A-Za-z]+)\d*\s*:")
STAGE_START = re.compile(r"^bootstrap:", re.IGNORECASE)
# Where the files of a derived build are bound while it runs; nothing of it is in the image.
STAGE = "/mnt"
DIGEST_LABEL = "org.opencontainers.image.base.digest"
RUNTIMES_OWN = "org.label-schema."  # labels that Apptainer gives each image it builds
INSTALL = """\
    set -eu
    pip() {{
        PIP_CONFIG_FILE=/dev/null PIP_BREAK_SYSTEM_PACKAGES=1 {python} -s -m pip "$@"
    }}
    pip install --quiet --disable-pip-version-check --root-user-action ignore --no-cache-dir \\
        --no-index --find-links {stage}/wheels --no-deps --no-compile --require-hashes \\
        -r {stage}/requirements.txt
    {python} -s {stage}/list.py | {python} -m compileall -q -i - \\
        --invalidation-mode unchecked-hash || [ $? -eq 1 ]  # 1: some cannot be compiled
    {python} -s -B {stage}/import_added.py {stage}/requested.txt 2>&1
"""
# Labels of an image of ours are written again. The new hashes join the lock: the image's own test
# allows one lock only.
RENEW = """\
    cat {stage}/labels >> "$APPTAINER_LABELS"
    if ls /opt/horovod/*.lock > /dev/null 2>&1; then
        for lock in /opt/horovod/*.lock; do
            [ ! -e {stage}/added.lock ] || cat {stage}/added.lock >> "$lock"
        done
        export TF_CPP_MIN_LOG_LEVEL=3
        /opt/horovod/bin/python -B -m horovod_image.labels >> "$APPTAINER_LABELS"
    fi
"""


def lines(text: str) -> Iterable[tuple[int, str, str]]:
    """Number, section and text of each line; headings are of their section, '' is the header.

    A section that Apptainer cannot know, such as an indented one, has its whole line as its name.
    """
    section = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if is_heading(line):
            name = line.lstrip("%").split(" ")[0].lower() if line.startswith("%") else ""
            section = name or line.strip()
        elif STAGE_START.match(line):
            section = ""
        yield number, section, line


def is_heading(line: str) -> bool:
    """Whether Apptainer takes a line for the start of a section, known or not."""
    return line.lstrip().startswith("%")


def placeholders(text: str) -> Iterable[tuple[int, str, str]]:
    """Number and text of a line with a placeholder, and its name; those in comments are none."""
    end = 0
    for match in PLACEHOLDER.finditer(text):
        start = text.rfind("\n", 0, match.start()) + 1
        if not COMMENT.search(text[max(start, end) : match.start()]):
            end = match.end()
            number = text.count("\n", 0, match.start()) + 1
            yield number, text[start:].partition("\n")[0], match[1]


def arguments(text: str) -> Mapping[str, str]:
    """The defaults in the %arguments section of a definition's text."""
    defaults: dict[str, str] = {}
    for _, section, line in lines(text):
        if section == "arguments" and (match := ARGUMENT.match(line)):
            defaults[match[1]] = match[2].strip()
    return defaults


def has_test(text: str) -> bool:
    """Whether a definition has a section %test with something in it."""
    return any(
        section == "test" and line.strip() and not is_heading(line)
        for _, section, line in lines(text)
    )


def packages(definition: Path) -> list[str]:
    """The Debian packages a definition of ours asks for. UsageError when it names none."""
    defaults = arguments(definition.read_text(encoding="utf-8"))
    names = defaults.get("packages", "").split()
    if not names:
        raise UsageError(
            f"{definition.name} has no line 'packages=...' below %arguments",
            id="packages-argument-missing",
        )
    return names


def check(text: str, name: str, build_args: Mapping[str, str]) -> None:
    """Raise UsageError, with the line, for what Apptainer would reject or silently ignore."""
    if not any(line.lower().lstrip().startswith("bootstrap") for line in text.splitlines()):
        raise UsageError(
            f"{name} has no line 'Bootstrap: ...': it is not a definition file\n"
            "Its first line is usually 'Bootstrap: docker'; the next 'From: debian:12-slim'.",
            id="bootstrap-missing",
        )
    for number, section, line in lines(text):
        where = f"{name}, line {number}"
        if is_heading(line):
            _check_heading(line, section, where)
        elif not section:
            _check_header(line, where)
    _check_arguments(text, name, build_args)


def _check_heading(line: str, section: str, where: str) -> None:
    if section not in SECTIONS:
        near = nearest(section, SECTIONS)
        if not line.startswith("%") or not near:
            near = (
                "Every line that begins with % starts a section, also an indented one or one in a"
                f" here-document. To write such a line: printf '%s\\n' '{line.strip()}'"
            )
        raise UsageError(
            f"{where}: there is no section '{line.strip()}'\n  | {line}\n{near}",
            id="section-unknown",
        )
    if section.startswith("app") and len(line.split()) < 2:
        raise UsageError(
            f"{where}: %{section} needs the name of an app\n  | {line}", id="app-not-named"
        )


def _check_header(line: str, where: str) -> None:
    if not line.strip() or line.lstrip().startswith("#"):
        return
    match = HEADER.match(line)
    if match is None:
        raise UsageError(
            f"{where}: neither 'Keyword: value' nor within a section\n  | {line}\n"
            "A section starts with a line such as %post at the line's very beginning.",
            id="header-malformed",
        )
    if match[1].lower() not in HEADERS:
        near = nearest(match[1].lower(), HEADERS)
        raise UsageError(
            f"{where}: there is no keyword '{match[1]}'\n  | {line}\n{near}", id="keyword-unknown"
        )


def _check_arguments(text: str, name: str, build_args: Mapping[str, str]) -> None:
    defaults, uses = arguments(text), list(placeholders(text))
    used = {word for _, _, word in uses}
    for word in build_args:
        if word not in used:
            raise UsageError(
                f"--build-arg {word}=...: {name} has no '{{{{ {word} }}}}'\n"
                f"{nearest(word, used) or 'It takes none.'}",
                id="build-arg-unknown",
            )
    for number, line, word in uses:
        if word not in defaults and word not in build_args:
            raise UsageError(
                f"{name}, line {number}: '{word}' has no value\n  | {line}\n"
                f"Give one: --build-arg {word}=...; or a default below %arguments.",
                id="build-arg-missing",
            )


def with_base(text: str, image: str) -> str:
    """The definition with an image's file in place of its first header's Bootstrap and From."""
    first = re.compile(r"^(bootstrap)\s*:.*", re.IGNORECASE | re.MULTILINE)
    text = first.sub(lambda match: f"{match[1]}: localimage", text, count=1)
    origin = re.compile(r"^(from)\s*:.*", re.IGNORECASE | re.MULTILINE)
    if origin.search(text):
        return origin.sub(lambda match: f"{match[1]}: {image}", text, count=1)
    return first.sub(lambda match: f"{match[0]}\nFrom: {image}", text, count=1)


@dataclass(frozen=True)
class Base:
    """The image that another is made from."""

    path: Path
    digest: str  # SHA-256, hexadecimal
    labels: Mapping[str, str]
    size: int  # bytes

    @classmethod
    def read(cls, path: Path, labels: Mapping[str, str]) -> Base:
        """With the digest, for which the whole file is read."""
        return cls(path, sha256(path), labels, path.stat().st_size)


def with_packages(base: str, python: str, proof: str = "") -> str:
    """The definition of the image file `base` with more packages for its program `python`.

    `proof` is a Python program that the new image has to be able to run, now and as its test.
    """
    test = f"    {python} -s -c '{proof}'\n" if proof else ""
    body = INSTALL.format(python=python, stage=STAGE) + test + RENEW.format(stage=STAGE)
    post = f"Bootstrap: localimage\nFrom: {base}\n\n%post\n{body}"
    return f"{post}\n%test\n{test}" if test else post


def with_start(text: str, command: str) -> str:
    """The definition with a command before all of its %post."""
    rows = text.splitlines()
    first = next((n for n, line in enumerate(rows) if is_heading(line)), len(rows))
    return "\n".join([*rows[:first], "%post", f"    {command}", "", *rows[first:]]) + "\n"


def local_base(text: str, build_args: Mapping[str, str]) -> str:
    """The image file that a definition of one stage starts from, "" when it is no file."""
    header: dict[str, str] = {}
    for _, section, line in lines(text):
        if not section and (match := HEADER.match(line)):
            key = match[1].lower()
            if key in header:
                return ""
            header[key] = line.partition(":")[2].partition("#")[0].strip()
    known = {**arguments(text), **build_args}
    filled = {key: PLACEHOLDER.sub(lambda m: known.get(m[1], ""), header[key]) for key in header}
    return filled.get("from", "") if filled.get("bootstrap", "").lower() == "localimage" else ""


def with_definition(base: Base, text: str, name: str) -> str:
    """The user's definition on top of the base. Raises UsageError."""
    headers = [line for line in text.splitlines() if line.lower().startswith("bootstrap")]
    if len(headers) > 1:
        raise UsageError(
            f"{name} has {len(headers)} stages, and --from replaces the base of one.\n"
            f"Write into it where the image belongs: 'Bootstrap: localimage', 'From: {base.path}',"
            f" then: runner build {name}",
            id="from-with-stages",
        )
    if set("#\n") & set(str(base.path)):
        raise UsageError(
            f"--from {base.path}: a definition cannot name a path with '#' in it",
            id="from-path-malformed",
        )
    changed = with_base(text, str(base.path))
    return f"{changed}\n%post\n{RENEW.format(stage=STAGE)}"


def labels(base: Base, created: str) -> dict[str, str]:
    """What the new image is told of its base; `created` is a time as in RFC 3339."""
    kept = {k: v for k, v in base.labels.items() if not k.startswith(RUNTIMES_OWN)}
    return {
        **kept,
        "org.opencontainers.image.created": created,
        "org.opencontainers.image.base.name": base.path.name,
        DIGEST_LABEL: f"sha256:{base.digest}",
    }


def render_labels(labels: Mapping[str, str]) -> str:
    return "".join(f"{key} {' '.join(value.split())}\n" for key, value in labels.items())


def needs(base: Base) -> Needs:
    """Of a build: the base unpacked, and the new image."""
    # Measured: ours, of 0.59 and 4.07 GB, are 2.3 and 9.5 GB unpacked, in 70,000 files each. That
    # and the new image, with room for packages.
    return Needs(36 * base.size // 10 + 9 * 10**8, 90_000)
