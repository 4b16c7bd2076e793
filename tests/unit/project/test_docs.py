"""The documentation: generated pages are current, commands parse, links and targets exist."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from runners.cli import cli
from runners.core.errors import Refused, RunnerError, UsageError
from runners.monitoring import end
from runners.settings import config, trainers
from runners.settings.table import SETTINGS
from tests import documents, reference
from tests.unit import scripts

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = documents.ROOT
PAGES = {documents.name(page): page for page in documents.pages()}
COMMANDS = dict(reference.commands())
# A heading's anchor has no punctuation, and dashes for spaces.
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings."""
    found = HEADING.findall(page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in found}


def runner_words(command: str) -> list[str]:
    """Return what stands after `runner` in a command line, which may begin with another word."""
    words = shlex.split(command, comments=True)
    at = [n for n, word in enumerate(words) if word.rpartition("/")[2] == "runner"]
    return words[at[0] + 1 :] if at else []


def parse(words: list[str]) -> dict[str, object]:
    """Return the values of a command's options; raise click's error for what it does not know."""
    command: click.Command = cli
    context = click.Context(cli)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        takes_words = any(isinstance(parameter, click.Argument) for parameter in command.params)
        if takes_words and words[0] not in command.commands:  # runner build cpu
            break
        _, found, words = command.resolve_command(context, words)
        assert found is not None
        command, context = found, click.Context(found, parent=context)
    # Values are checked but for paths: the files of the examples are not here.
    values, _, order = command.make_parser(context).parse_args(list(words))
    for parameter in order:
        value = values[parameter.name]
        if isinstance(parameter.type, click.Choice) and isinstance(value, (str, list)):
            parameter.type_cast_value(context, value)
    return values


@pytest.mark.parametrize("name", reference.PAGES)
def test_reference_is_current(name: str) -> None:
    there = (documents.REFERENCE / name).read_text(encoding="utf-8")
    assert there == reference.PAGES[name](), "run: make reference"


def test_the_readme_is_read_in_one_sitting() -> None:
    assert len(PAGES["README.md"].read_text(encoding="utf-8").splitlines()) <= 250


# Each of these tests looks at all pages, or all commands, and names what is wrong with any.


def test_every_command_has_help_and_an_example() -> None:
    wrong = [
        name
        for name, command in COMMANDS.items()
        if not command.help or "Example" not in (command.epilog or "")
    ]
    assert wrong == []
    options = [(name, p) for name, command in COMMANDS.items() for p in command.params]
    undocumented = [
        f"{name}: {p.name}"
        for name, p in options
        if isinstance(p, click.Option) and not p.hidden and not p.help
    ]
    assert undocumented == []


def test_every_command_parses() -> None:
    wrong = []
    for block, command in documents.commands():
        words = runner_words(command)
        try:
            if words:
                check_values(words)
            else:
                assert command not in block.on_cluster, "it does nothing of ours"
        except (AssertionError, ValueError, click.ClickException, RunnerError) as error:
            wrong.append(f"{block.page}: {command}: {error}")
    assert not wrong, "\n".join(wrong)


def check_values(words: list[str]) -> None:
    """Parse a command; raise what it would refuse."""
    values = parse(words)
    given = {s.name: values.get(s.name.replace("-", "_")) for s in SETTINGS.values()}
    if words[0] == "scale":
        del given["nodes"]  # several sizes
    texts = {name: str(value) for name, value in given.items() if value not in (None, [], ())}
    variables = {config.variable(SETTINGS[name]): text for name, text in texts.items()}
    config.from_environment(variables)  # refuses what is of the wrong kind


TUTORIALS = [name for name in PAGES if name.startswith("docs/tutorials/")]
ROW = re.compile(r"^\| (?P<theirs>.+?) \| (?P<here>.+) \|$", re.MULTILINE)
SPAN = re.compile(r"`([^`]+)`")
# Of the right column: names and programs that are not ours, and a line of a site's profile.
NOT_OURS = ("make ", "sinfo ", "sshare ", "module = ", "xprof", "conda ")


def equivalents(page: str) -> list[str]:
    """Return what a tutorial's table gives as ours, each as one types it."""
    text = PAGES[page].read_text(encoding="utf-8")
    table = text.partition("| in the tutorial | here |\n|---|---|\n")[2].partition("\n\n")[0]
    spans = [span for row in ROW.finditer(table) for span in SPAN.findall(row["here"])]
    return [span for span in spans if not span.startswith(NOT_OURS) and span != "runner"]


def test_the_tables_of_the_tutorials() -> None:
    wrong = []
    for page in TUTORIALS:
        for typed in equivalents(page):
            try:
                check_equivalent(typed)
            except (AssertionError, ValueError, click.ClickException, RunnerError) as error:
                wrong.append(f"{page}: {typed}: {error}")
    assert not wrong, "\n".join(wrong)


def check_equivalent(typed: str) -> None:
    """A command, options of one, or a packaged trainer with arguments; `-- ...` are arguments."""
    words = [word for word in runner_words(typed) or shlex.split(typed) if word != "..."]
    name, *rest = words
    if command_named(name):
        parse(words)
    elif name == "--":
        trainers.check_arguments("torch_resnet", ["--synthetic", *rest])
    elif name.startswith("--"):
        known = {option for command in ("launch", "scale") for option in options_of(command)}
        assert {word for word in words if word.startswith("--")} <= known
    else:
        assert trainers.source(name), f"{name}: neither a command nor a packaged trainer"
        trainers.check_arguments(name, rest[1:])


def command_named(name: str) -> click.Command | None:
    return cli.get_command(click.Context(cli), name)


def options_of(name: str) -> list[str]:
    command = command_named(name)
    parameters = command.params if command else []
    return [
        word for parameter in parameters for word in (*parameter.opts, *parameter.secondary_opts)
    ]


def test_every_site_has_such_a_table() -> None:
    sites = [page for page in TUTORIALS if documents.site(PAGES[page]) or page.endswith("alcf.md")]
    assert len(sites) == 5
    assert all(len(equivalents(page)) > 8 for page in sites)


def test_a_wrong_option_would_be_found() -> None:
    with pytest.raises(click.NoSuchOption):
        parse(["launch", "--nods", "2", "torch_mnist"])
    with pytest.raises(click.UsageError, match="lunch"):
        parse(["lunch"])
    with pytest.raises(click.BadParameter):
        parse(["launch", "--controller", "mpl", "torch_mnist"])


def blocks() -> Iterator[documents.Block]:
    return (block for page in PAGES.values() for block in documents.blocks(page))


def all_of(pattern: str | re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Yield the name of a page and what a pattern finds in it."""
    for name, page in PAGES.items():
        for match in re.findall(pattern, page.read_text(encoding="utf-8")):
            yield name, match


def test_commands_stand_in_consoles() -> None:
    wrong = [b for b in blocks() if bool(b.commands) != (b.language == "console")]
    assert wrong == []


def test_links_lead_somewhere() -> None:
    wrong = []
    for name, link in all_of(LINK):
        path, _, anchor = link.partition("#")
        target = (PAGES[name].parent / path).resolve() if path else PAGES[name]
        if "://" not in link and not (
            target.exists() and (not anchor or anchor in anchors(target))
        ):
            wrong.append((name, link))
    assert wrong == []


def test_files_of_ours_exist() -> None:
    found = list(all_of(r"`((?:addons|runners|recipes|containers|tests)/[\w./-]+)`"))
    assert found
    assert [(name, path) for name, path in found if not (ROOT / path).exists()] == []


def test_the_map_has_every_room() -> None:
    text = PAGES["docs/contributing.md"].read_text(encoding="utf-8")
    rooms = {folder.parent.name for folder in (ROOT / "runners").glob("*/__init__.py")}
    assert set(re.findall(r"^\|[ \d]*\| `(\w+)/` \|", text, re.MULTILINE)) == rooms


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    heads = " ".join(re.findall(r"^([a-z -]+):", makefile, re.MULTILINE)).split()
    named = list(all_of(re.compile(r"(?:`|^\$ )make ([a-z][a-z-]+)\b", re.MULTILINE)))
    assert named
    assert [(name, target) for name, target in named if target not in heads] == []


def test_the_forges_steps_are_targets_of_make() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for path in (ROOT / ".github/workflows").glob("*.yml"):
        text = path.read_text(encoding="utf-8").replace("${{ matrix.image }}", "cpu")
        for target in re.findall(r"\bmake ([a-z][a-z-]+)", text):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_settings_in_toml_are_valid() -> None:
    for block in blocks():
        if block.language == "toml":
            tables = tomllib.loads(block.text)
            config.check_table(block.page, tables.get("launch", {}))


def test_exit_codes_are_all_documented() -> None:
    text = (ROOT / "docs/concepts/exit-codes.md").read_text(encoding="utf-8")
    ours = map(int, re.findall(r"^EXIT_\w+ = (\d+)", sources(), re.MULTILINE))
    states = end.EXIT_CODES.values()
    for code in {RunnerError.exit_code, UsageError.exit_code, Refused.exit_code, *ours, *states}:
        assert re.search(rf"^\| {code} \|", text, re.MULTILINE), code


def sources() -> str:
    """Return all of the product's code."""
    folders = ("runners", "recipes", "containers", "addons/convert/runner_convert")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.py")]
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


def test_every_variable_of_ours_is_documented() -> None:
    known = {config.variable(setting) for setting in SETTINGS.values()}
    known |= {name for names in reference.READ for name in names.split(", ")}
    found = set(re.findall(r"\bRUNNER_[A-Z_]+[A-Z]\b", sources()))
    assert found - known == reference.INTERNAL


def test_every_variable_that_a_job_exports_is_documented() -> None:
    text = "\n".join(map(scripts.text, scripts.jobs().values()))
    names = set(re.findall(r"^export (?:APPTAINERENV_|SINGULARITYENV_)?(\w+)=", text, re.MULTILINE))
    listed = ", ".join([*reference.FORCED, *reference.SET]).split(", ")
    patterns = [re.escape(name).replace(r"\*", ".*") for name in listed]
    unknown = {n for n in names if not any(re.fullmatch(pattern, n) for pattern in patterns)}
    assert unknown <= {"PATH", "SINGULARITY_NO_EVAL"}


def test_shown_lines_stand_in_the_trainers() -> None:
    for block in blocks():
        if "lines of" in block.marks:
            file = ROOT / "recipes" / "minimal" / f"{block.marks['lines of']}.py"
            lines = iter(file.read_text(encoding="utf-8").splitlines())
            assert all(line in lines for line in block.text.splitlines()), block.text
