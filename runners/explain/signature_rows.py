"""Signatures that are rows of a table: how a failure reads, what happened, and how to fix it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any, Callable, NamedTuple, Optional, Union

from ..core.remedy import Remedy
from .explanation import Explanation, Signature
from .facts import Facts, Line
from .finding_helpers import ITSELF, certain, edit, host, likely, who
from .sentences import worded

Named = Mapping[str, Any]  # the named groups of a regex, or the fields of a record
Fix = Union[Remedy, Callable[[Facts, Named], Remedy]]


class Row(NamedTuple):
    """A failure: `sign` is a regex, or the kind of a record, by which it is known.

    `cause` may have {who}, {host}, {how}, {image}, {error}, the names of WORDS and what is named by
    the sign. `because` tells why it is certain, `likely` why it is no more than that.
    """

    name: str
    sign: str
    cause: str
    fix: Fix = edit
    because: str = ITSELF
    likely: str = ""


# What a row's sign names, and the lines that show it; None where the sign is not there
Seen = Optional["tuple[Named, tuple[Line, ...]]"]


def signatures(rows: tuple[Row, ...], see: Callable[[Row, Facts], Seen]) -> tuple[Signature, ...]:
    """Return the signatures of a table's rows, whose signs `see` looks for."""
    return tuple(Signature(row.name, partial(_judge, row, see)) for row in rows)


def _judge(row: Row, see: Callable[[Row, Facts], Seen], facts: Facts) -> Explanation | None:
    seen = see(row, facts)
    if seen is None:
        return None
    named, lines = seen
    how = facts.first.how if facts.first else ""
    known = {"who": who(facts), "host": host(facts), "how": how, "image": facts.image}
    cause = worded(row.cause, facts.has_image).format(**{"error": facts.error, **known, **named})
    fix = row.fix if isinstance(row.fix, Remedy) else row.fix(facts, named)
    if row.likely:
        return likely(facts, cause, fix, *lines, because=row.likely)
    return certain(facts, cause, fix, *lines, because=row.because)


def of_kind(row: Row, facts: Facts) -> Seen:
    """See the kind of the first rank's record."""
    return (facts.fields, facts.fields.get("evidence", ())) if facts.kind == row.sign else None


def in_error(row: Row, facts: Facts) -> Seen:
    """See the sign in the error of the first rank to fail."""
    match = re.search(row.sign, facts.error)
    return (match.groupdict(""), ()) if match else None
