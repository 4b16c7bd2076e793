"""The table of CPU seconds that ends a run of the real tests."""

from __future__ import annotations

import pytest

from tests.real import cpu_time


def report(name: str, seconds: float | None) -> pytest.TestReport:
    properties = [] if seconds is None else [(cpu_time.SECONDS, seconds)]
    place = ("test_x.py", 1, name)
    return pytest.TestReport(
        name, place, {}, "passed", None, "teardown", user_properties=properties
    )


def test_the_ten_most_expensive_tests_come_first_and_the_sum_is_of_all() -> None:
    reports = [report(f"test_{number}", number / 2) for number in range(12)]
    lines = cpu_time.shown([*reports, report("not measured", None)])
    assert [line.split()[1] for line in lines[:-1]] == [f"test_{n}" for n in range(11, 1, -1)]
    assert lines[0].split() == ["5.5", "test_11"]
    assert lines[-1].split() == ["33.0", "all", "12"]


def test_where_nothing_is_measured_there_is_no_table() -> None:
    assert cpu_time.shown([report("test", None)]) == []
