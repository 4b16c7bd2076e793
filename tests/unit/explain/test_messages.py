"""Messages as users paste them, by the kind of mistake that a wrong answer was."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from runners.cli import cli
from runners.core.diagnosis import Certainty
from runners.core.errors import RunnerError
from runners.core.model import Resources
from runners.explain import ended_by_slurm, judge, message_signatures
from runners.explain.explanation import Explanation
from runners.explain.facts import Facts
from runners.explain.fixes import gpu_for_each_rank
from runners.explain.read_facts import of_text
from runners.monitoring import end
from runners.settings import suggest
from runners.settings.config_files import read_toml

from .cases import FOLDER

CASES = read_toml(FOLDER / "pasted" / "messages.toml")["case"]
KINDS = sorted({case["kind"] for case in CASES})
SURENESS = tuple(Certainty)
ORDINAL = """Traceback (most recent call last):
  File "/w/train.py", line 12, in setup
    torch.cuda.set_device(local_rank)
RuntimeError: CUDA error: invalid device ordinal
"""
# Words of which each is a sign of somebody in a sentence, and of nobody in a path
IN_PATHS = """
horovod hvd nccl mpi MPI_Init torch.distributed DDP fsdp FSDP DTensor rendezvous torchelastic
pipeline tf.distribute MirroredStrategy h5py HDF5 deepspeed lightning ray wandb apptainer slurm
checkpoint-metadata all_reduce process_group Adasum
"""


def explained(folder: Path, text: str) -> Explanation:
    file = folder / "log"
    file.write_text(text.strip("\n") + "\n", encoding="utf-8")
    return judge.explain_text(file, "log")


def said(explanation: Explanation) -> str:
    commands = (suggest.text(fix, end.UNKNOWN_LAUNCH) for fix in explanation.remedies)
    return "\n".join((explanation.what, *explanation.steps, *commands, explanation.tell))


def faults(case: dict[str, Any], explanation: Explanation) -> list[str]:
    """Return what is wrong with an answer; it is as sure as the entry of the message says."""
    words = said(explanation)
    wrong = [
        f"not said: {sign}" for sign in case.get("says", ()) if not re.search(sign, words, re.I)
    ]
    wrong += [f"said: {sign}" for sign in case.get("never", ()) if re.search(sign, words)]
    entries = {entry.id: entry for entry in message_signatures.entries()}
    known = entries.get(explanation.id)
    sure = known.certainty if known else explanation.certainty
    if "at_most" in case and SURENESS.index(sure) < SURENESS.index(Certainty(case["at_most"])):
        wrong.append(sure.value)
    return wrong


@pytest.mark.parametrize("kind", KINDS)
def test_a_message_is_told_as_what_it_is(tmp_path: Path, kind: str) -> None:
    wrong = []
    for case in (case for case in CASES if case["kind"] == kind):
        explanation = explained(tmp_path, case["text"])
        if found := faults(case, explanation):
            wrong.append(f"{explanation.id}: {found}\n{case['text']}\n{said(explanation)}")
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize(
    ("after", "sure"),
    [
        ("", Certainty.CERTAIN),
        ("srun: error: n1: task 0: Exited with exit code 1\n", Certainty.CERTAIN),
        ("WARNING:root:flash_attn not available\nstep 10 loss 2.1\n{}", Certainty.LIKELY),
        ("step 10 loss 2.1\nERROR: no folder /data/coco\n", Certainty.LIKELY),
    ],
)
def test_a_package_that_a_program_did_without_is_not_certain(
    tmp_path: Path, after: str, sure: Certainty
) -> None:
    text = """Traceback (most recent call last):
  File "/opt/venv/lib/python3.11/site-packages/fla/utils.py", line 12, in <module>
ModuleNotFoundError: No module named 'flash_attn'
"""
    lost = """Traceback (most recent call last):
  File "/w/train.py", line 9, in <module>
horovod.common.exceptions.HorovodInternalError: ncclAllReduce failed: unhandled system error
"""
    explanation = explained(tmp_path, text + after.format(lost))
    assert (explanation.id, explanation.certainty) == ("flash-attention-missing", sure)


@pytest.mark.parametrize(
    "error",
    [
        "RuntimeError: cannot parse tokens in {path}",
        "ValueError: unknown key lr0 in {path}",
        "AssertionError: missing {path}",
        "KeyError: '{path}'",
        "OSError: [Errno 116] Stale file handle: '{path}'",
        "FileNotFoundError: [Errno 2] No such file or directory: '{path}'",
        "FileExistsError: [Errno 17] File exists: '{path}'",
        "PermissionError: [Errno 13] Permission denied: '{path}'",
        "json.decoder.JSONDecodeError: Expecting value in {path}: line 1 column 1 (char 0)",
    ],
)
def test_names_of_folders_change_no_answer(tmp_path: Path, error: str) -> None:
    frame = 'Traceback (most recent call last):\n  File "/w/train.py", line 5, in main\n'
    names = {}
    for word in ("x", *IN_PATHS.split()):
        path = f"/scratch/u/{word}-project/{word}/a.dat"
        names[word] = explained(tmp_path, frame + error.format(path=path)).id
    assert set(names.values()) == {names["x"]}, names


def ordinal(folder: Path, **resources: Any) -> Facts:
    (folder / "log").write_text(ORDINAL, encoding="utf-8")
    facts = of_text(folder / "log", "log", ())
    return replace(facts, plan=replace(facts.plan, resources=Resources(**resources)))


@pytest.mark.parametrize(
    ("resources", "fix"),
    [
        ({"ntasks_per_node": 8, "gpus_per_node": "4"}, "--gpus-per-node 8"),
        ({"ntasks_per_node": 8, "gpus_per_task": "1"}, "--gpus-per-node 8"),
        ({"ntasks_per_node": 4, "gpus_per_node": "A100:2"}, "--gpus-per-node A100:4"),
        ({"ntasks_per_node": 4, "gpus_per_task": "A100:1"}, "--gpus-per-node A100:4"),
        ({"nodes": 2, "ntasks": 8, "gpus_per_node": "2"}, "--gpus-per-node 4"),
    ],
)
def test_the_fix_of_an_ordinal_keeps_all_ranks(
    tmp_path: Path, resources: dict[str, Any], fix: str
) -> None:
    assert str(gpu_for_each_rank(ordinal(tmp_path, **resources))) == fix


@pytest.mark.parametrize(
    "text",
    [
        "AssertionError: Torch not compiled with CUDA enabled",
        "RuntimeError: No CUDA GPUs are available",
        "pynvml.NVMLError_LibraryNotFound: NVML Shared Library Not Found",
        "FATAL:   container creation failed: open /dev/nvidia0: operation not permitted",
    ],
)
@pytest.mark.parametrize(
    ("resources", "asks"),
    [({}, True), ({"gpus_per_node": "4"}, False), ({"gpus_per_task": "1"}, False)],
)
def test_no_fix_asks_for_fewer_gpus_than_the_launch_did(
    tmp_path: Path, text: str, resources: dict[str, Any], asks: bool
) -> None:
    (tmp_path / "log").write_text(text + "\n", encoding="utf-8")
    facts = of_text(tmp_path / "log", "log", judge.PATTERNS)
    facts = replace(facts, plan=replace(facts.plan, resources=Resources(**resources)))
    fix = judge.judge(ended_by_slurm.end_in_text(facts)).fix
    assert fix
    given = dict(fix.options)
    assert given.get("gpus-per-node") == ("1" if asks else None)


def test_lightnings_ranks_of_a_node_are_as_many_in_all_as_before(tmp_path: Path) -> None:
    said = "RuntimeError: You set `--ntasks=8` in your SLURM bash script, but this variable is not"
    (tmp_path / "log").write_text(f"{said} supported.\n", encoding="utf-8")
    facts = of_text(tmp_path / "log", "log", judge.PATTERNS)
    for resources, ranks in ((Resources(nodes=2, ntasks=8), "4"), (Resources(), "8")):
        asked = replace(facts, plan=replace(facts.plan, resources=resources))
        fix = judge.judge(ended_by_slurm.end_in_text(asked)).fix
        assert fix
        assert {name: str(value) for name, value in fix.options}["ntasks-per-node"] == ranks


def test_as_many_gpus_as_ranks_are_not_requested_again(tmp_path: Path) -> None:
    facts = ordinal(tmp_path, ntasks_per_node=4, gpus_per_node="A100:4")
    assert "gpus-per-node" not in str(gpu_for_each_rank(facts))


def run(*words: str, text: str = "") -> tuple[int, str]:
    done = CliRunner().invoke(cli, ["explain", *words], input=text)
    error = done.exception
    if isinstance(error, RunnerError):
        return error.exit_code, str(error)
    return done.exit_code, done.output


def test_a_file_and_a_pasted_text_are_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("slurm-7.out").write_text("0: OSError: [Errno 122] Disk quota exceeded: '/h/x'\n")
    code, output = run("slurm-7.out")
    assert code == 0
    assert "slurm-7.out: a log alone; the job's command, nodes and records are not known" in output
    assert "your quota" in output
    assert "evidence:      slurm-7.out:1: " in output
    code, output = run("-", text=ORDINAL)
    assert code == 0
    assert "standard input: a log alone" in output
    assert "selects a GPU that does not exist" in output
    assert "runner logs" not in output
    code, output = run("--json", "slurm-7.out")
    assert (code, '"job": null' in output, '"id": "quota"' in output) == (0, True, True)


def test_in_a_text_without_an_error_there_is_nothing_to_fix(tmp_path: Path) -> None:
    text = "epoch 1 loss 0.5\nepoch 2 loss 0.4\n"
    explanation = explained(tmp_path, text)
    assert (explanation.remedies, explanation.fixed_by) == ((), "")
    code, output = run("-", text=text)
    assert (code, "fix" in output) == (0, False), output
    assert explanation.what == "the text has no error that is known"
    assert explanation.certainty is Certainty.UNSURE


@pytest.mark.parametrize(
    ("scope", "due", "name"),
    [
        ("JOB", " DUE TO TIME LIMIT", "time-limit"),
        ("STEP", " DUE TO TIME LIMIT", "time-limit"),
        ("JOB", " DUE TO PREEMPTION", "preempted"),
        ("JOB", "", "cancelled"),
    ],
)
def test_slurms_last_words_tell_how_the_job_ended(
    tmp_path: Path, scope: str, due: str, name: str
) -> None:
    text = f"slurmstepd: error: *** {scope} 7 ON n1 CANCELLED AT 2026-11-28T18:00:00{due} ***"
    assert explained(tmp_path, text).id == name


def test_what_cannot_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))  # where runs are remembered
    Path("empty.log").touch()
    Path("folder").mkdir()
    for words, told in (
        (["empty.log"], "empty.log is empty"),
        (["no.log"], "no run or job 'no.log'"),
        (["no.log"], "no.log is no file either"),
        (["folder"], "no run or job 'folder'"),
    ):
        code, output = run(*words)
        assert (code, told in output) == (2, True), output
    code, output = run("-", text="")
    assert (code, "standard input is empty" in output) == (2, True)
