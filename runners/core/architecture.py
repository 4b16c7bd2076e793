"""Kinds of machines: those of containers/, which has them too."""

from __future__ import annotations

from containers.architecture import WORDS as WORDS
from containers.architecture import architecture as architecture
from containers.architecture import file_name as file_name
