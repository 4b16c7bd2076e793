"""Adasum is refused where Horovod would break off."""

from __future__ import annotations

from argparse import Namespace

import pytest

from recipes import common, options

from .one_rank import OneRank

WANTED = Namespace(adasum=True)


class WithMpi(OneRank):
    def mpi_enabled(self) -> bool:
        return True


@pytest.mark.parametrize("size", [1, 2, 4, 16])
def test_powers_of_two_with_mpi(size: int) -> None:
    options.check_adasum(WANTED, WithMpi(size=size))


@pytest.mark.parametrize("size", [3, 6, 12])
def test_other_numbers_of_ranks(size: int) -> None:
    with pytest.raises(common.UserError, match=rf"--adasum needs 2, 4, .* ranks, not {size}"):
        options.check_adasum(WANTED, WithMpi(size=size))
    options.check_adasum(Namespace(adasum=False), WithMpi(size=size))


def test_gloo() -> None:
    with pytest.raises(common.UserError, match="--adasum needs the MPI controller"):
        options.check_adasum(WANTED, OneRank(size=2))
