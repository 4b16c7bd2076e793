"""Entries of `signatures/run`: what the reader refuses, and that each sentence has its words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from runners.contract import failure_kinds as kinds
from runners.contract.exit_codes import EXIT_NOT_VERIFIED
from runners.explain import message_signatures, run_signatures
from runners.explain.run_conditions import NONE
from runners.explain.run_signatures import RunSignature

from .. import sentences

ENTRIES = [*run_signatures.entries()]
OF_FACTS = {
    *("who", "host", "image", "error", "how", "reason", "since", "mpi", "interfaces", "signal"),
    *("on_purpose", "meaning", "environment"),
}
ENTRY = """\
[[signature]]
id = "x"
precedence = 500
cause = "it failed"
certainty = "likely"
remedy = "logs"
match = "x"
[signature.when]
state = "failed"
line = [{ words = "y", pattern = "y+" }]
"""
MESSAGE = """\
[[signature]]
id = "x"
match = ["x"]
cause = "it failed"
fix = ["Fix it"]
certainty = "likely"
fixed_by = "you"
source = "x.c"
example = "x"
"""


def test_an_entry_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(ENTRY)
    (entry,) = run_signatures.read(tmp_path / "a.toml")
    assert (entry.id, entry.when.state, entry.patterns[0].words) == ("x", "failed", "y")


@pytest.mark.parametrize(
    ("good", "wrong", "id"),
    [
        ('id = "x"\n', "", "table-invalid"),
        ('match = "x"', 'match = "x("', "table-invalid"),
        ('pattern = "y+"', 'pattern = "+"', "signature-invalid"),
        ("remedy =", "remedie =", "table-invalid"),
        ("state =", "stat =", "table-invalid"),
        ('"failed"', '"broken"', "table-invalid"),
        ('state = "failed"', 'kind = "odd"', "table-invalid"),
        ('state = "failed"', 'signal = "SIGODD"', "table-invalid"),
        ('state = "failed"', "exit_code = true", "table-invalid"),
        ("500", '"slurm"', "table-invalid"),
        ('"likely"', '"sure"', "table-invalid"),
        ('"logs"', '"odd"', "table-invalid"),
        ('remedy = "logs"', "", "signature-invalid"),
        ('remedy = "logs"', 'remedy = "logs"\nadvice = "Fix it"', "signature-invalid"),
        ('remedy = "logs"', "change = { odd = true }", "signature-invalid"),
        ('remedy = "logs"', 'leave_out = ["odd"]', "table-invalid"),
        ('"logs"', '"logs"\nshow = ["last"]', "table-invalid"),
        ('"logs"', '"logs"\nsignals = { SIGODD = "odd" }', "signature-invalid"),
        ("[[signature]]", "[[signatur]]", "signature-table-unknown"),
    ],
)
def test_what_is_no_entry_is_refused(tmp_path: Path, good: str, wrong: str, id: str) -> None:
    assert ENTRY.count(good) == 1
    (tmp_path / "a.toml").write_text(ENTRY.replace(good, wrong))
    with sentences.raises(id):
        run_signatures.read(tmp_path / "a.toml")


@pytest.mark.parametrize(
    ("good", "wrong"),
    [
        ('id = "x"\n', ""),
        ("certainty =", "certanty ="),
        ("example =", "where ="),
        ("example =", "precedence = true\nexample ="),
    ],
)
def test_what_is_no_message_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, good: str, wrong: str
) -> None:
    monkeypatch.setattr(message_signatures, "FOLDER", tmp_path)
    (tmp_path / "a.toml").write_text(MESSAGE)
    (entry,) = message_signatures.entries.__wrapped__()
    assert entry.id == "x"
    (tmp_path / "a.toml").write_text(MESSAGE.replace(good, wrong))
    with sentences.raises("table-invalid"):
        message_signatures.entries.__wrapped__()


def test_a_sentence_names_what_there_is() -> None:
    wrong = []
    for entry in ENTRIES:
        patterns = (entry.match, *(line.pattern for line in entry.when.line))
        groups = {name for pattern in patterns for name in re.compile(pattern).groupindex}
        kind = entry.when.kind
        known = OF_FACTS | groups | {*(kinds.KINDS[kind] if kind else ())}
        texts = " ".join((entry.cause, entry.advice, entry.first, *map(str, entry.change.values())))
        wrong += [
            f"{entry.id}: {word}" for word in re.findall(r"\{(\w+)\}", texts) if word not in known
        ]
    assert not wrong


def test_sentences_are_like_those_of_messages() -> None:
    assert not [entry.id for entry in ENTRIES if entry.cause.endswith(".")]
    assert not [entry.id for entry in ENTRIES if not re.fullmatch(r"[a-z0-9-]+", entry.id)]


def test_the_code_of_an_image_that_was_changed_is_that_of_the_job() -> None:
    codes = {entry.when.job_exit_code for entry in ENTRIES if entry.id == "image-changed"}
    assert codes == {None, EXIT_NOT_VERIFIED}


def test_an_entry_does_not_fit_wherever_a_later_one_of_its_name_does() -> None:
    """The first of one name and precedence that fits speaks: the general one stands last."""
    wrong = []
    for number, later in enumerate(ENTRIES):
        for entry in ENTRIES[:number]:
            same = (entry.id, entry.precedence) == (later.id, later.precedence)
            alike = (entry.match, entry.signals) == (later.match, later.signals)
            if same and alike and entry.unless == NONE and given(entry) <= given(later):
                wrong.append(f"{later.id}: {later.when}")
    assert not wrong


def given(entry: RunSignature) -> set[tuple[str, str]]:
    """Return the conditions of an entry."""
    return {
        (name, str(wanted))
        for name, wanted in vars(entry.when).items()
        if wanted not in ("", None, ())
    }
