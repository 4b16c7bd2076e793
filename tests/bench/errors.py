"""The two ways in which a measurement does not take place."""

from __future__ import annotations


class BenchError(Exception):
    """Something that must run did not; the text says what, with the evidence and a remedy."""


class Skipped(Exception):
    """This machine lacks what the measurement needs; the text says what, and how to get it."""
