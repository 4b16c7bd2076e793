"""Signatures of other people's programs: each file's examples are its tests."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from runners.explain import judge, message_signatures
from runners.explain.explanation import SURENESS, Precedence
from runners.explain.facts import Line
from runners.explain.fixes import REMEDIES
from runners.explain.message_signatures import OF_IMAGES, Match, MessageSignature, entries
from runners.explain.searched_text import ERROR, HARMLESS, LOG, Text, parted
from runners.explain.sentences import WORDS
from runners.settings.table import SETTINGS

FOR_IMAGES = re.compile(
    r"runner (?:build (?!env\b)|pull|verify|inspect)|shell --image|--apptainer-arg"
    r"|--(?:bind|stage-image|host-mpi)\b"
)


def examples() -> Iterator[tuple[str, MessageSignature, str]]:
    for entry in entries():
        for number, example in enumerate(entry.examples):
            yield f"{entry.id}-{number}", entry, example


def log_of(lines: list[str]) -> Text:
    return Text("", "", tuple(Line(number, line) for number, line in enumerate(lines)))


def text_of(entry: MessageSignature, example: str) -> Text:
    """Return an example as it would be found: in the log, or as an error's traceback."""
    if entry.where == LOG:
        return log_of(example.splitlines())
    messages, frames = parted(example.splitlines())
    return Text("\n".join(messages), "\n".join(frames))


def known(text: Text) -> list[str]:
    return [match.entry.id for match in message_signatures.matches(text)]


def rank(match: Match) -> tuple[int, int, int]:
    """Return what decides between messages that are found in one text, but for their places."""
    entry = match.entry
    return entry.precedence, SURENESS.index(entry.certainty), -len(entry.match)


# Each table is one test, which names all that fail: as a test of its own, each of 700 examples
# costs more in pytest than in what it tests.


def test_an_example_is_known_by_its_own_signature() -> None:
    failures = []
    for name, entry, example in examples():
        matches = sorted(message_signatures.matches(text_of(entry, example)), key=rank)
        first = [match.entry.id for match in matches if rank(match) == rank(matches[0])]
        if first != [entry.id]:  # two that claim it with equal right are wrong too
            failures.append(f"{name}: {first} of {[match.entry.id for match in matches]}")
    assert not failures, "\n".join(failures)


def test_lines_that_are_passed_over_in_a_log_hide_no_example() -> None:
    hidden = []
    for name, entry, example in examples():
        lines = example.splitlines()
        rest = [line for line in lines if not HARMLESS.search(line)]
        if rest != lines and entry.where != ERROR and entry.id not in known(log_of(rest)):
            hidden.append(name)
    assert not hidden


def test_what_looks_alike_is_not_it() -> None:
    wrong = [
        f"{entry.id}: {text}"
        for entry in entries()
        for text in entry.not_for
        if entry.id in known(text_of(entry, text))
    ]
    assert not wrong


def faults(entry: MessageSignature) -> Iterator[str]:
    """Yield what is wrong with a signature itself."""
    named = {"0", "who", "host", "image", "error", "user", "job"}
    groups = (re.compile(pattern, re.MULTILINE).groupindex for pattern in entry.match)
    named.update(name.rstrip(message_signatures.DIGITS) for names in groups for name in names)
    said = " ".join((entry.cause, *entry.fix, entry.tell, entry.command))
    rules = {
        "id": re.fullmatch(r"[a-z0-9-]+", entry.id),
        "where": entry.where in ("error", "said", "log", "any"),
        "fixed_by": entry.fixed_by in ("you", "author", "administrator", "nobody"),
        "certainty": entry.certainty in SURENESS,
        "fix": entry.fix,
        "full stop": not any(sentence.endswith(".") for sentence in (entry.cause, *entry.fix)),
        "source": entry.source and "/pypi" not in entry.source,
        "remedy": not entry.remedy or entry.remedy in REMEDIES,
        "change": {*entry.change, *entry.leave_out} <= set(SETTINGS),
        "braces": set(re.findall(r"\{([a-z_]\w*|\d)\}", said)) <= named,
    }
    yield from (name for name, right in rules.items() if not right)
    for name, value in entry.change.items():
        if name in SETTINGS and SETTINGS[name].choices and value not in SETTINGS[name].choices:
            yield f"change {name} = {value}"


def test_no_advice_names_a_folder_that_others_can_make_first() -> None:
    """Caches hold code that is executed, and /tmp is everybody's."""
    told = {entry.id: f"{entry.fix} {entry.change} {entry.command}" for entry in entries()}
    assert not [
        id for id, words in told.items() if re.search(r"(=|root |mkdir -?p? ?)/tmp/", words)
    ]


def test_without_an_image_no_signature_tells_a_command_for_one() -> None:
    wrong = []
    for entry in entries(has_image=False):
        of_image = entry.about == "apptainer"  # whose own options are what has failed
        causes = () if of_image else (entry.cause, entry.because, entry.tell)
        texts = (*causes, entry.command, *entry.fix)
        wrong += [f"{entry.id}: {text}" for text in texts if FOR_IMAGES.search(text)]
        wrong += [f"{entry.id}: {option}" for option in OF_IMAGES & {*entry.change}]
        wrong += [f"{entry.id}: {word}" for word in WORDS if f"{{{word}}}" in " ".join(texts)]
        if not of_image and not entry.fix:
            wrong.append(f"{entry.id}: nothing to do")
    assert not wrong, "\n".join(wrong)


def test_what_is_left_out_for_a_job_leaves_no_half_of_an_alternative() -> None:
    """Neither a first step that begins with Or, nor an option that passes limits to sbatch."""
    wrong = []
    for has_image in (True, False):
        for by_sbatch in (True, False):
            for entry in entries(has_image, by_sbatch):
                told = " ".join((*entry.fix, entry.command))
                if entry.fix and entry.fix[0].split()[0] in ("Or", "Else"):
                    wrong.append(f"{entry.id}: {entry.fix[0]}")
                if not by_sbatch and "--propagate" in told:
                    wrong.append(f"{entry.id}: {told}")
    assert not wrong, "\n".join(wrong)


def test_without_an_image_nothing_is_said_of_a_container() -> None:
    by_id = {entry.id: entry for entry in entries(has_image=False)}
    for id in ("slurm-no-config", "extension-file-missing"):
        said = " ".join((by_id[id].cause, *by_id[id].fix))
        assert not re.search("container|image|bind", said), said


def test_without_an_image_packages_are_installed_into_the_environment() -> None:
    by_id = {entry.id: entry for entry in entries(has_image=False)}
    assert "{image}/bin/python -m pip install -r more.txt" in by_id["deepspeed-missing"].fix[0]


def test_no_signature_of_code_or_facts_shares_its_number() -> None:
    """Which speaks, where two fit, is to be read from their numbers; only messages share one."""
    numbers = Counter(signature.precedence for signature in judge.SIGNATURES)
    of_messages = {entry.precedence for entry in entries()}
    assert not [number for number, count in numbers.items() if count > 1 or number in of_messages]


def test_a_message_is_where_its_number_says() -> None:
    groups = Counter(Precedence.group(entry.precedence) for entry in entries())
    of_messages = (Precedence.MESSAGE, Precedence.MESSAGE_BEFORE_CRASH, Precedence.GENERAL_MESSAGE)
    assert set(groups) == set(of_messages)
    assert max(groups, key=lambda group: groups[group]) is Precedence.MESSAGE  # the default


def test_a_signature_is_whole() -> None:
    wrong = [f"{entry.id}: {fault}" for entry in entries() for fault in faults(entry)]
    assert not wrong, "\n".join(wrong)
    twice = [id for id, count in Counter(entry.id for entry in entries()).items() if count > 1]
    assert not twice
