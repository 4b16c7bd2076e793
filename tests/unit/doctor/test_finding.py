"""Findings as programs read them."""

from __future__ import annotations

from runners.core import diagnosis
from runners.core.command_line import CommandLine
from runners.core.remedy import change
from runners.doctor.finding import About, document


def test_programs_read_whole_commands_and_how_many_findings_there_are() -> None:
    about = About("image")
    findings = [
        about.ok("labels", "they are there"),
        about.failure("MPI", "there is none", "no mpirun", change(image="b.sif")),
    ]
    told = document(findings, CommandLine("doctor"))
    assert (told["version"], told["failed"]) == (diagnosis.VERSION, True)
    assert told["counts"] == {"ok": 1, "warning": 0, "failure": 1}
    bad = told["diagnoses"][1]
    assert (bad["id"], bad["subject"], bad["name"]) == ("image-mpi", "image", "MPI")
    assert bad["remedies"][0]["text"] == "runner doctor --image b.sif"
