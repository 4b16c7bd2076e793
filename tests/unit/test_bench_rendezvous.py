"""The table of how long ranks take to meet; nothing is measured here."""

from __future__ import annotations

from tests.bench import hub, rendezvous

GLOO = {"seconds": 0.4, "frames": 72, "requests": 536, "cpu": 0.1}
FOUND: rendezvous.Jobs = {
    "8": {
        "pmix": [{"seconds": 0.2}],
        "gloo": [GLOO],
        "plain": [{"seconds": 0.2, "frames": 536, "requests": 536, "cpu": 0.3}],
        "horovod-mpi": [{"seconds": 0.5}],
        "horovod-gloo": [{"seconds": 0.25}],
    },
    "64": {"pmix": [{"seconds": 1.0}], "gloo": [{**GLOO, "seconds": 3.0}]},
}


def test_each_number_of_ranks_has_a_reference_and_a_ratio() -> None:
    table = rendezvous.rows(FOUND)
    assert [row.ratio for row in table] == [None, 2.0, None, 3.0, None, 0.5, None, 0.5]
    assert table[1].what == "our rendezvous, with Horovod's requests, 8 ranks"
    assert table[7].to == "hvd.init(), MPI over PMIx, 8 ranks"


def test_what_rank_0_served_is_said() -> None:
    first, _ = rendezvous.notes(FOUND)
    assert "8 ranks: rank 0 received 72 frames (9.0 from each rank) instead of 536" in first
    assert first.endswith("0.10 s of CPU, a plain store 0.30 s")


def test_simulated_ranks_and_a_real_one_meet_at_a_real_hub() -> None:
    found = hub.answered(hub.apart(lambda: hub.measure(4)))
    assert found["frames"] == 4 * len(("HELLO", "MEET", "PUT", "DONE", "PUT", "DONE"))
    assert found["requests"] >= 1 + 2 * 12  # to meet, then 12 for each of two scopes
    assert found["sent_mb"] * 1e6 > 3 * 3 * 2 * 136  # each of three hears of three, twice
