"""The lines of `runner verify`, where an error is the answer to a question."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runners.core import sif
from runners.core.diagnosis import Severity
from runners.core.errors import NotVerified
from runners.core.remedy import advice
from runners.images import verify
from runners.images.verify import ImageCheck

from ..core.test_sif import make_sif
from ..in_process import runner


def checks(image: Path) -> dict[str, ImageCheck]:
    return {check.name: check for check in verify.verify(image, "", True, print)}


def test_a_truncated_file_keeps_the_diagnosis(tmp_path: Path) -> None:
    check = checks(make_sif(tmp_path / "cut.sif", {}, cut=100))["whole"]
    assert (check.state, check.id) == (verify.FAIL, "image-unusable")
    assert check.evidence
    assert check.remedies == (advice("copy or build it again"),)


def test_a_signature_that_no_runtime_can_check_keeps_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = make_sif(tmp_path / "signed.sif", {}, more=[(sif.SIGNATURE, b"signature")])
    monkeypatch.setenv("PATH", str(tmp_path))
    check = checks(image)["signature"]
    assert check.id == "container-runtime-missing"
    assert check.remedies == (advice("module load apptainer"),)
    assert not checks(make_sif(tmp_path / "plain.sif", {}))["signature"].id


def test_programs_get_the_diagnosis_and_people_a_line_for_each_remedy(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_sif(here / "cut.sif", {}, cut=100)
    done = runner(monkeypatch, capsys, "verify", "--json", "cut.sif")
    assert done.returncode == NotVerified.exit_code
    whole, contents = json.loads(done.stdout)["checks"]
    assert whole["diagnosis"]["id"] == "image-unusable"
    assert whole["diagnosis"]["evidence"]
    assert whole["diagnosis"]["remedies"] == [{"kind": "advice", "text": whole["remedy"]}]
    assert contents["diagnosis"] is None

    both = (advice("first"), advice("second"))
    failed = ImageCheck("x", Severity.FAILURE, "why", "a\n b", both, name="runs", state=verify.FAIL)
    monkeypatch.setattr(verify, "verify", lambda *_: iter([failed]))
    told = runner(monkeypatch, capsys, "verify", "cut.sif").stdout
    first, *below = told.splitlines()
    assert first == "fail         runs          why"
    assert below == [f"{'':<27}{line}" for line in ("a", " b", "try: first", "try: second")]
