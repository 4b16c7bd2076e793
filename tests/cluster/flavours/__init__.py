"""Clusters that are like real sites, by the names that `up --like` takes."""

from __future__ import annotations

from . import alvis, kit, neuron, perlmutter, tuhpc
from .model import Flavour

__all__ = ["FLAVOURS", "kit"]

FLAVOURS: dict[str, Flavour] = {
    flavour.cluster: flavour
    for flavour in (neuron.FLAVOUR, perlmutter.FLAVOUR, alvis.FLAVOUR, tuhpc.FLAVOUR)
}
