"""Signatures of other people's programs: each file's examples are its tests."""

from __future__ import annotations

import re

import pytest

from runners.explain import signatures
from runners.explain.facts import Line
from runners.explain.signature_text import ERROR, HARMLESS, LOG, Text, parted
from runners.explain.signatures import ORDER, REMEDIES, Entry
from runners.settings.table import SETTINGS

ENTRIES = signatures.entries()
EXAMPLES = [
    pytest.param(entry, example, id=f"{entry.id}-{number}")
    for entry in ENTRIES
    for number, example in enumerate(entry.examples)
]
NOT_FOR = [
    pytest.param(entry, text, id=f"{entry.id}-{number}")
    for entry in ENTRIES
    for number, text in enumerate(entry.not_for)
]


def text_of(entry: Entry, example: str) -> Text:
    """Return an example as it would be found: in the log, or as an error's traceback."""
    if entry.where == LOG:
        lines = example.splitlines()
        return Text("", "", tuple(Line(number, line) for number, line in enumerate(lines)))
    messages, frames = parted(example.splitlines())
    return Text("\n".join(messages), "\n".join(frames))


@pytest.mark.parametrize(("entry", "example"), EXAMPLES)
def test_an_example_is_known_by_its_own_signature(entry: Entry, example: str) -> None:
    first, *others = signatures.matches(text_of(entry, example))
    assert first.entry.id == entry.id, [each.entry.id for each in (first, *others)]
    rivals = [each.entry.id for each in others if each.rank[:2] == first.rank[:2]]
    assert not rivals, "two signatures claim it with equal right"


@pytest.mark.parametrize(("entry", "example"), EXAMPLES)
def test_lines_that_are_passed_over_in_a_log_hide_no_example(entry: Entry, example: str) -> None:
    lines = [line for line in example.splitlines() if not HARMLESS.search(line)]
    text = Text("", "", tuple(Line(number, line) for number, line in enumerate(lines)))
    known = [each.entry.id for each in signatures.matches(text)]
    assert entry.where == ERROR or entry.id in known


@pytest.mark.parametrize(("entry", "text"), NOT_FOR)
def test_what_looks_alike_is_not_it(entry: Entry, text: str) -> None:
    assert entry.id not in [each.entry.id for each in signatures.matches(text_of(entry, text))]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: str(entry.id))
def test_a_signature_is_whole(entry: Entry) -> None:
    assert re.fullmatch(r"[a-z0-9-]+", entry.id)
    assert [each.id for each in ENTRIES].count(entry.id) == 1, "two have this id"
    assert entry.where in ("error", "log", "any")
    assert entry.fixed_by in ("you", "author", "administrator", "nobody")
    assert entry.certainty in ORDER
    assert entry.fix
    assert not any(sentence.endswith(".") for sentence in (entry.cause, *entry.fix))
    assert entry.source
    assert "/pypi" not in entry.source
    assert not entry.remedy or entry.remedy in REMEDIES
    assert {*entry.change, *entry.leave_out} <= set(SETTINGS)
    for name, value in entry.change.items():
        assert not SETTINGS[name].choices or value in SETTINGS[name].choices, (name, value)
    named = {"0", "who", "host", "image", "error", "user"}
    groups = (re.compile(pattern, re.MULTILINE).groupindex for pattern in entry.match)
    named.update(name.rstrip(signatures.DIGITS) for names in groups for name in names)
    said = " ".join((entry.cause, *entry.fix, entry.tell, entry.command))
    assert set(re.findall(r"\{([a-z_]\w*|\d)\}", said)) <= named
