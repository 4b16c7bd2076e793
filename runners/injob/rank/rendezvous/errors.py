"""What goes wrong at the rendezvous."""

from __future__ import annotations


class RendezvousError(Exception):
    """The ranks could not meet; the text says which of them is missing, and where."""
