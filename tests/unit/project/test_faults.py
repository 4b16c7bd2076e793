"""The harness of the faults: what it would call half-written, left over, or wrong."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from tests.faults import of_nodes, of_ranks, whole
from tests.faults.fault import GROUPS, in_order
from tests.faults.left import Snapshot


def run_folder(root: Path) -> Path:
    """A run's folder in which all is whole."""
    (root / "checkpoints").mkdir(parents=True)
    (root / "exit.json").write_text('{"exit_code": 0}')
    (root / "metrics.jsonl").write_text('{"step": 1}\n{"step": 2}\n')
    payload = root / "checkpoints/step-00000002.ckpt"
    payload.write_bytes(b"weights")
    manifest = {"sha256": hashlib.sha256(b"weights").hexdigest()}
    payload.with_suffix(".json").write_text(json.dumps(manifest))
    return root


def test_a_whole_run_has_no_problems(tmp_path: Path) -> None:
    assert whole.problems(run_folder(tmp_path / "run")) == []


def test_all_that_is_half_written_is_found(tmp_path: Path) -> None:
    root = run_folder(tmp_path / "run")
    (root / "exit.json").write_text("")
    (root / "job.json.12.part").write_text("{")
    (root / "metrics.jsonl").write_text('{"step": 1}\n{"st')
    (root / "checkpoints/step-00000002.ckpt").write_bytes(b"weig")
    assert sorted(whole.problems(root)) == [
        "exit.json is no JSON",
        "job.json.12.part is left",
        "metrics.jsonl:2 is no JSON",
        "step-00000002.ckpt is damaged",
    ]


def test_a_changed_file_of_a_finished_run_is_noticed(tmp_path: Path) -> None:
    root = run_folder(tmp_path / "run")
    before = whole.digest(root)
    assert whole.digest(root) == before
    (root / "exit.json").write_text('{"exit_code": 1}')
    assert whole.digest(root) != before


def test_only_what_was_not_there_before_is_left() -> None:
    before, now = Snapshot(frozenset({"n1: a"})), Snapshot(frozenset({"n1: a", "n2: b"}))
    assert now.beyond(before) == ["n2: b"]


def test_faults_have_names_of_their_own_and_stand_in_groups() -> None:
    assert of_ranks
    assert of_nodes
    faults = in_order()
    assert len({fault.name for fault in faults}) == len(faults)
    groups = [fault.group for fault in faults]
    assert groups == sorted(groups, key=GROUPS.index)
