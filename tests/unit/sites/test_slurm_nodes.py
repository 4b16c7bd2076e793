"""What a cluster says of itself."""

from __future__ import annotations

from runners.sites.slurm_nodes import parse_mpi_list


def test_mpi_types_of_three_generations() -> None:
    text = "MPI plugin types are...\n\tnone\n\tpmi2\n\tpmix\n"
    text += "specific pmix plugin versions available: pmix_v4,pmix_v5\n"
    assert parse_mpi_list(text) == ("none", "pmi2", "pmix", "pmix_v4", "pmix_v5")
    assert parse_mpi_list(text.replace("\t", "  "))[:3] == ("none", "pmi2", "pmix")
