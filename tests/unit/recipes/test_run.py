"""What a run leaves behind: metrics, results, checkpoints; and how it continues from them."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from recipes import agreement, checkpoints, distributed, options, results
from recipes import run as recipes_run
from recipes.device import Framework
from recipes.distributed import Ranks, UserError
from recipes.run import Run

from .. import sentences
from .one_rank import one_rank


class Weights:
    """A model of one number, as a checkpoint sees it."""

    def __init__(self, name: str = "w") -> None:
        self.name, self.value, self.fails = name, b"begin", False

    def signature(self) -> str:
        return checkpoints.signature([(self.name, [1])])

    def pack(self, folder: Path) -> Any:
        if self.fails:
            raise OSError(28, "No space left on device")
        return self.value

    def unpack(self, payload: Any) -> None:
        self.value = payload


class Parts(Weights):
    """As FSDP's: a folder, which each rank reads by itself."""

    def pack(self, folder: Path) -> Path:
        folder.mkdir()
        (folder / "part").write_bytes(self.value)
        return folder

    def unpack(self, payload: Path) -> None:
        self.value = (payload / "part").read_bytes()


@pytest.fixture(autouse=True)
def _leave_as_it_was(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A run notes signals and ends the process; the next test wants the usual."""

    def leave(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(distributed, "leave", leave)
    monkeypatch.setattr(recipes_run, "leave", lambda code: None)
    monkeypatch.setattr(agreement, "AGREE_SECONDS", 0)  # in each step
    before = {number: signal.getsignal(number) for number in (signal.SIGUSR1, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def run_of(folder: Path, world: Ranks | None = None, gpu_name: str = "", **changed: Any) -> Run:
    args = options.Parser("some_trainer", "what it does").parse_args(["--output", str(folder)])
    usual = {"epochs": 3, "batch_size": 5, "base_lr": 0.1, "warmup_epochs": 0, "log_interval": 2}
    for name, value in {**usual, "resume": "never", **changed}.items():
        setattr(args, name, value)
    framework = Framework("cpu", {"torch": "2"}, gpu_name=gpu_name)
    return Run(args, world or one_rank(), "some_trainer", framework, "things")


def train(run: Run, state: Weights, *, count: int = 20, stop_at: int = 0, bad_at: int = 0) -> None:
    """Do what a trainer does, its weights being the step that they were changed in."""
    run.begin(count, state)
    for _ in run.epochs():
        for batch in run.batches():
            run.rate = 0.1
            state.value = b"%d" % (run.step + 1)
            if run.step + 1 == stop_at:
                os.kill(os.getpid(), signal.SIGUSR1)
            run.step_done(math.nan if run.step + 1 == bad_at else 0.5 * batch.own)
        run.epoch_done(lambda: [4.0, 9, 10])


def lines(folder: Path, event: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line for line in found if line["event"] == event]


def saved(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def result(folder: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return value


# Results


def test_a_result_has_means_and_a_speed_without_the_first_epoch(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    train(run, Weights())
    for epoch, seconds, waited in zip(run.history, (10.0, 1.0, 3.0), (9.0, 0.5, 0.5)):
        epoch |= {"seconds": seconds, "data_seconds": waited}
    run.finish([], extra=7)
    found = result(tmp_path)
    assert found["samples_per_s"] == 10
    assert (found["first_epoch_seconds"], found["steady_epoch_seconds"]) == (10, 2)
    assert (found["accuracy"], found["test_loss"], found["loss"]) == (0.9, 0.4, 0.5)
    assert (found["steps"], found["world_size"], found["controller"]) == (12, 1, "gloo")
    assert found["startup_seconds"] > 0
    assert 0 < found["step_seconds_median"] <= found["step_seconds_p95"]
    assert found["peak_memory_bytes"] > 1e6
    assert found["data_wait_share"] == 0.25  # without the first epoch, which starts the workers
    assert {"python", "torch"} == set(found["versions"])
    assert (found["arguments"]["base_lr"], found["extra"]) == (0.1, 7)


def test_what_evaluation_reads_is_no_wait_of_training(tmp_path: Path) -> None:
    run = run_of(tmp_path, epochs=1)
    run.begin(20, Weights())
    next(run.epochs())
    for batch in run.batches():
        run.rate = 0.1
        run.step_done(0.5 * batch.own)
    run.epoch_done(lambda: [run.read(lambda: 4.0), 9, 10])
    run.finish([])
    assert result(tmp_path)["data_wait_share"] == 0


def test_without_evaluation_there_is_no_accuracy(tmp_path: Path) -> None:
    run = run_of(tmp_path, epochs=1)
    run.begin(20, Weights())
    for _ in run.epochs():
        for batch in run.batches():
            run.rate = 0.1
            run.step_done(0.5 * batch.own)
        run.epoch_done()
    run.finish([])
    assert not {"accuracy", "test_loss"} & set(result(tmp_path))
    assert result(tmp_path)["loss"] == 0.5
    assert result(tmp_path)["samples_per_s"] is None  # one epoch has no steady speed


def test_the_utilization_says_what_it_assumes(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    run.history = [{"seconds": 1.0, "count": 1}, {"seconds": 2.0, "count": 400}]
    assert results.utilization(run, 1e12) == {}  # no GPU whose peak is known
    on_gpu = run_of(tmp_path, gpu_name="NVIDIA H200")
    on_gpu.history = run.history
    found = results.utilization(on_gpu, 2e12)
    assert found["mfu"] == pytest.approx(200 * 2e12 / 989e12)
    assert "989 TFLOP/s" in found["mfu_assumes"]
    assert "2e+12 FLOPs" in found["mfu_assumes"]


def test_weights_that_differ_by_rank_leave_no_result(tmp_path: Path) -> None:
    train(run := run_of(tmp_path), Weights())
    run.ranks = one_rank(others=("other weights",))
    with sentences.refuses(RuntimeError):
        run.finish([])
    assert not (tmp_path / "result.json").exists()


def test_metrics_have_a_line_per_epoch_and_per_log_interval(tmp_path: Path) -> None:
    train(run_of(tmp_path), Weights())
    assert [line["step"] for line in lines(tmp_path, "step")] == [2, 4, 6, 8, 10, 12]
    epochs = lines(tmp_path, "epoch")
    assert [(line["epoch"], line["step"]) for line in epochs] == [(1, 4), (2, 8), (3, 12)]
    keys = "event epoch step loss test_loss accuracy learning_rate seconds samples_per_s"
    assert set(epochs[0]) == {*keys.split(), "steps", "time"}
    assert {line["steps"] for line in (*epochs, *lines(tmp_path, "step"))} == {12}


def test_a_new_run_takes_away_the_old_result(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text("{}")
    (tmp_path / "metrics.jsonl").write_text("{}\n")
    run_of(tmp_path).begin(20, Weights())
    assert not (tmp_path / "result.json").exists()
    assert (tmp_path / "metrics.jsonl").read_text() == ""


def test_other_ranks_write_and_say_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_of(tmp_path / "out", one_rank(rank=1, size=2))
    train(run, Weights())
    run.finish([])
    assert capsys.readouterr().out == ""
    assert not (tmp_path / "out").exists()


def test_a_result_that_cannot_be_written_is_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A job that has lost its result must not end well."""
    train(run := run_of(tmp_path), Weights())
    (tmp_path / "result.json").mkdir()  # what no rename replaces
    with pytest.raises(SystemExit) as caught:
        run.finish([])
    assert caught.value.code == 1
    sentences.said(capsys.readouterr().err)


# What ends all ranks


def test_a_loss_that_is_no_number_names_the_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for seconds in (0, 3600):  # in each step, and at the end of the epoch
        monkeypatch.setattr(agreement, "AGREE_SECONDS", seconds)
        with pytest.raises(SystemExit) as caught:
            train(run_of(tmp_path), Weights(), bad_at=7)
        assert caught.value.code == 1
        sentences.said(capsys.readouterr().err)


def test_a_model_that_has_diverged_is_not_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agreement, "AGREE_SECONDS", 3600)
    with pytest.raises(SystemExit):
        train(run_of(tmp_path, checkpoint_every=2), Weights(), bad_at=2)
    assert saved(tmp_path) == []


def test_data_that_cannot_be_read_ends_all_ranks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Steps later, when they next agree. What reads ahead has ended by then."""

    def broken() -> Any:
        yield 0.0
        raise UserError("cannot read the image x.jpg")

    monkeypatch.setattr(agreement, "AGREE_SECONDS", 3600)
    run, stream = run_of(tmp_path), broken()
    run.begin(20, Weights())
    next(run.epochs())
    for _ in run.batches():
        assert run.read(lambda: next(stream), blank=0.0) == 0.0
        run.step_done(0.0)
    with pytest.raises(SystemExit) as caught:
        run.epoch_done()
    assert caught.value.code == 2
    assert capsys.readouterr().err == "error: cannot read the image x.jpg\n"
    assert saved(tmp_path) == []


def test_a_signal_ends_the_run_with_its_work_saved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        train(run_of(tmp_path), Weights(), stop_at=6)
    assert caught.value.code == 91
    assert "stopped on SIGUSR1 after step 6; a checkpoint is saved" in capsys.readouterr().out
    manifest = json.loads((tmp_path / "checkpoints" / "step-00000006.json").read_text())
    assert (manifest["taken"], manifest["epoch"], manifest["loss_sum"]) == (10, 2, 5.0)


def test_a_signal_in_the_last_step_of_an_epoch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        train(run_of(tmp_path), Weights(), stop_at=4)
    assert "stopped on SIGUSR1 after step 4" in capsys.readouterr().out
    run = run_of(tmp_path, resume="auto")
    run.begin(20, Weights())
    assert (run.step, run.epoch, run.taken) == (4, 2, 0)


def test_a_signal_when_all_is_done_changes_nothing(tmp_path: Path) -> None:
    train(run := run_of(tmp_path), Weights(), stop_at=12)
    run.finish([])
    assert result(tmp_path)["steps"] == 12


# Checkpoints


def test_each_epoch_is_saved_and_the_newest_are_kept(tmp_path: Path) -> None:
    train(run_of(tmp_path, keep=2), Weights())
    stems = ["step-00000008", "step-00000012"]
    assert saved(tmp_path) == [f"{stem}.{end}" for stem in stems for end in ("ckpt", "json")]


def test_a_run_continues_where_it_was_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(run_of(tmp_path, checkpoint_every=3, max_steps=6, keep=9), Weights())
    assert [name for name in saved(tmp_path) if name.endswith("json")] == [
        "step-00000003.json",
        "step-00000006.json",
    ]
    state = Weights()
    run = run_of(tmp_path, resume="auto")
    run.begin(20, state)
    assert state.value == b"6"
    assert (run.step, run.epoch, run.taken, run.last_step) == (6, 2, 10, 12)
    assert (run.loss_sum, len(run.history)) == (5.0, 1)
    assert "resumed at step 6, epoch 2" in capsys.readouterr().out


def test_the_wait_for_data_of_half_an_epoch_is_kept(tmp_path: Path) -> None:
    run = run_of(tmp_path, epochs=2, max_steps=6, keep=9)
    run.begin(20, Weights())
    for _ in run.epochs():
        for batch in run.batches():
            run.rate = 0.1
            run.step_done(0.5 * batch.own)
        run.data_seconds += 1.0
        run.epoch_done()
    seconds = run.history[-1]["seconds"]
    run = run_of(tmp_path, epochs=2, resume="auto")
    train(run, Weights())
    assert [epoch["data_seconds"] for epoch in run.history] == [1.0, 1.0]
    manifest = json.loads((tmp_path / "checkpoints" / "step-00000006.json").read_text())
    assert manifest["seconds"] < 1.5 * seconds


def test_a_checkpoint_from_before_waits_were_counted_continues(tmp_path: Path) -> None:
    train(run_of(tmp_path, max_steps=10), Weights())
    for path in (tmp_path / "checkpoints").glob("*.json"):
        manifest = json.loads(path.read_text())
        for part in (manifest, *manifest["history"]):
            part.pop("data_seconds", None)
        path.write_text(json.dumps(manifest))
    train(run := run_of(tmp_path, resume="auto"), Weights())
    run.finish([])
    assert result(tmp_path)["data_wait_share"] == 0


def test_another_number_of_ranks_continues_at_the_end_of_an_epoch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(run_of(tmp_path, max_steps=4), Weights())
    run = run_of(tmp_path, one_rank(size=2), resume="auto")
    run.begin(20, Weights())
    assert (run.step, run.epoch, run.last_step) == (4, 2, 4 + 2 * 2)
    assert "1 ranks before, 2 now" in capsys.readouterr().out


def test_metrics_of_lost_steps_are_taken_away(tmp_path: Path) -> None:
    train(run_of(tmp_path, checkpoint_every=5, keep=9), Weights())
    (tmp_path / "checkpoints" / "step-00000012.json").unlink()
    (tmp_path / "checkpoints" / "step-00000010.json").unlink()
    with (tmp_path / "metrics.jsonl").open("a") as cut:
        cut.write('{"event": "step", "st')
    train(run := run_of(tmp_path, resume="auto"), Weights())
    assert [line["step"] for line in lines(tmp_path, "step")] == [2, 4, 6, 8, 10, 12]
    assert [line["epoch"] for line in lines(tmp_path, "epoch")] == [1, 2, 3]
    assert [line["step"] for line in lines(tmp_path, "resume")] == [5]
    run.finish([])
    assert (result(tmp_path)["resumed_at_steps"], result(tmp_path)["epochs"]) == ([5], 3)


def test_a_stop_that_cannot_be_saved_is_not_called_saved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = Weights()
    state.fails = True
    with pytest.raises(SystemExit) as caught:
        train(run_of(tmp_path), state, stop_at=2)
    assert caught.value.code == 1
    sentences.said(capsys.readouterr().err)


def two_checkpoints(folder: Path) -> Path:
    """Train to step 8; return the folder of checkpoints."""
    train(run_of(folder, max_steps=8), Weights())
    return folder / "checkpoints"


def find(folder: Path, word: str = "auto", trainer: str = "some_trainer", name: str = "w") -> Any:
    """Return the step of what `--resume WORD` finds, and what was said."""
    said: list[str] = []
    found = checkpoints.find(word, folder, trainer, Weights(name).signature(), said.append)
    return found and found[0]["step"], said


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    path.write_bytes(b"x" + path.read_bytes()[1:])


@pytest.mark.parametrize("spoil", [cut, flip, os.unlink])
def test_a_spoilt_checkpoint_is_named_and_the_one_before_used(tmp_path: Path, spoil: Any) -> None:
    newest = two_checkpoints(tmp_path) / "step-00000008.ckpt"
    spoil(newest)
    step, (said,) = find(newest.parent)
    assert step == 4
    assert str(newest) in sentences.said(said)


def test_a_manifest_that_is_not_one_is_named(tmp_path: Path) -> None:
    path = two_checkpoints(tmp_path) / "step-00000008.json"
    path.write_text('{"position": 3}')
    step, (said,) = find(path.parent)
    assert step == 4
    assert str(path) in sentences.said(said)


@pytest.mark.parametrize("form", [None, 3])
def test_checkpoints_of_other_forms_are_refused_with_the_reason(
    tmp_path: Path, form: int | None
) -> None:
    path = two_checkpoints(tmp_path) / "step-00000008.json"
    values = json.loads(path.read_text())
    assert values.pop("form") == 2
    path.write_text(json.dumps(values if form is None else {**values, "form": form}))
    step, (said,) = find(path.parent)
    assert step == 4
    assert "step-00000008.ckpt" in sentences.said(said)


@pytest.mark.parametrize(("trainer", "name"), [("another", "w"), ("some_trainer", "v")])
def test_a_foreign_checkpoint_is_refused_and_nothing_begins_again(
    tmp_path: Path, trainer: str, name: str
) -> None:
    folder = two_checkpoints(tmp_path)
    with sentences.refuses(UserError):
        find(folder, trainer=trainer, name=name)


def test_auto_without_checkpoints_begins(tmp_path: Path) -> None:
    run = run_of(tmp_path, resume="auto")
    run.begin(20, Weights())
    assert run.step == 0


@pytest.mark.parametrize(
    "word", ["", "checkpoints", "checkpoints/step-00000004.ckpt", "checkpoints/step-00000004.json"]
)
def test_resume_from_a_path(tmp_path: Path, word: str) -> None:
    two_checkpoints(tmp_path / "old")
    new = tmp_path / "new" / "checkpoints"
    assert find(new, str(tmp_path / "old" / word))[0] == (4 if "4" in word else 8)


def test_a_job_that_was_queued_again_continues_from_its_own_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = str(two_checkpoints(tmp_path / "old") / "step-00000004.ckpt")
    new = two_checkpoints(tmp_path / "new")
    steps = []
    for resume in ("never", "auto"):
        monkeypatch.setenv("RESUME", resume)
        steps.append(find(new, old)[0])
    assert steps == [4, 8]


def test_resume_from_where_there_is_nothing(tmp_path: Path) -> None:
    with sentences.refuses(UserError):
        find(tmp_path, str(tmp_path))
    with sentences.refuses(UserError):
        find(tmp_path, str(tmp_path / "nothing.ckpt"))


@pytest.mark.parametrize(("count", "seed"), [(21, 1), (20, 2)])
def test_another_order_in_the_middle_of_an_epoch_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], count: int, seed: int
) -> None:
    train(run_of(tmp_path, max_steps=6), Weights())
    with pytest.raises(SystemExit) as caught:
        run_of(tmp_path, resume="auto", seed=seed).begin(count, Weights())
    assert caught.value.code == 2
    sentences.said(capsys.readouterr().err)


def test_a_run_that_is_done_wants_more_epochs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(run_of(tmp_path), Weights())
    with pytest.raises(SystemExit):
        run_of(tmp_path, resume="auto").begin(20, Weights())
    sentences.said(capsys.readouterr().err)
    with pytest.raises(SystemExit):
        run_of(tmp_path, resume="auto", epochs=9, max_steps=12).begin(20, Weights())
    sentences.said(capsys.readouterr().err)


def test_a_folder_is_a_checkpoint_too_and_one_with_a_cut_part_is_none(tmp_path: Path) -> None:
    train(run_of(tmp_path, keep=2), Parts())
    older, newest = sorted((tmp_path / "checkpoints").glob("*.ckpt"))
    assert (older.name, newest.is_dir()) == ("step-00000008.ckpt", True)
    (newest / "part").write_bytes(b"1")
    state = Parts()
    train(run := run_of(tmp_path, resume="auto"), state)
    assert (run.first_step, state.value) == (8, b"12")
    assert (newest / "part").read_bytes() == b"12"  # written once more


def test_other_trainers_checkpoints_are_not_taken_away(tmp_path: Path) -> None:
    folder = two_checkpoints(tmp_path)
    for step in (97, 98, 99):
        checkpoints.save(folder / f"step-000000{step}.ckpt", b"", {"trainer": "another"}, 2)
    kept = [name for name in saved(tmp_path) if name.endswith("json")]
    assert kept == [f"step-000000{n}.json" for n in ("04", "08", "98", "99")]


def test_files_are_replaced_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = OSError("disk full")

    def full(number: int) -> None:
        raise error

    path = tmp_path / "result.json"
    checkpoints.write_atomically(path, b"old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError) as caught:  # noqa: PT011  it is that one
        checkpoints.write_atomically(path, b"new")
    assert caught.value is error
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [
        ("result.json", b"old")
    ]


def test_a_line_of_metrics_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    """A limit on the size of files cuts a write as a full disk does."""
    text = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from recipes import checkpoints\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (90, 90))\n"
        "for step in range(5):\n"
        "    try:\n"
        "        checkpoints.append(Path('metrics.jsonl'), {'event': 'step', 'step': step})\n"
        "    except OSError as error:\n"
        "        print(error.strerror)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(checkpoints.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.stdout.count("\n") == 4, done.stderr
    (line,) = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert json.loads(line)["step"] == 0
