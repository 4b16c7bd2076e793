"""The checker of TOML: what each kind accepts, and what is said of the rest."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Optional, Union

import pytest

from runners.core.toml_check import Rule, check, convert, faults, one_of

from .. import sentences

Count = Annotated[int, Rule("0 or more", lambda count: count >= 0)]


@dataclass(frozen=True)
class Inner:
    size: Count
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outer:
    kind: Annotated[str, one_of("a", "b")] = "a"
    parts: dict[str, Inner] = field(default_factory=dict)
    listed: tuple[Inner, ...] = ()
    one: Optional[Inner] = None  # noqa: UP045 - read as it runs, by Python 3.9 too


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"kinds": "a"}, "unknown key kinds; did you mean kind?"),
        ({"kind": "c"}, "kind must be one of a, b, not 'c'"),
        ({"kind": 1}, "kind must be a string, not 1"),
        ({"parts": {"x": 1}}, "parts.x must be a table, not 1"),
        ({"parts": {"x": {"size": -1}}}, "parts.x.size must be 0 or more, not -1"),
        ({"parts": {"x": {"size": True}}}, "parts.x.size must be a whole number, not True"),
        ({"parts": {"x": {"size": 1, "words": "w"}}}, "parts.x.words must be a list of strings"),
        ({"listed": {}}, "listed must be a list of tables, not {}"),
        ({"listed": [{}]}, "listed lacks size"),
        ({"one": {}}, "one lacks size"),
    ],
)
def test_a_fault_has_its_dotted_key(value: dict[str, Any], said: str) -> None:
    (found,) = faults(Outer, value)
    assert found.startswith(said)
    with sentences.raises("table-invalid"):
        check("my.toml", Outer, value)


def test_a_union_is_one_of_its_kinds() -> None:
    kinds = {"env": Union[tuple[str, ...], dict[str, str]]}
    assert faults(kinds, {"env": ["A=1"]}) == faults(kinds, {"env": {"A": "1"}}) == []
    assert faults(kinds, {"env": 1}) == ["env must be a list of strings, not 1"]


def test_tables_become_dataclasses_and_lists_tuples() -> None:
    value = {
        "parts": {"x": {"size": 1, "words": ["a"]}},
        "listed": [{"size": 2}],
        "one": {"size": 3},
    }
    assert faults(Outer, value) == []
    assert convert(Outer, value) == Outer("a", {"x": Inner(1, ("a",))}, (Inner(2),), Inner(3))
