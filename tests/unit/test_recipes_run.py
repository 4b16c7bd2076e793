"""What a run leaves behind: metrics, results, checkpoints; and how it goes on from them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from recipes import common, options
from recipes.common import UserError, abort, files
from recipes.common.checkpoints import Checkpoints, Manifest, changes, find
from recipes.common.record import Record
from recipes.common.run import Run
from recipes.common.steps import Loop, Position

from .one_rank import OneRank

SUMS = [50.0, 100.0, 4.0, 9.0, 10.0]

NEWER = "newer trainers wrote it, these read 1"


class Said(list[str]):
    """What was said, line by line."""


class Weights:
    """A model of one number, as a checkpoint sees it."""

    def __init__(self, name: str = "w") -> None:
        self.name, self.value, self.fails = name, b"begin", False

    def signature(self) -> str:
        return common.signature([(self.name, [1])])

    def gather(self) -> None:
        """Nothing is of one rank only."""

    def write(self, path: Path) -> common.Sum:
        if self.fails:
            raise OSError(28, "No space left on device")
        return files.write_atomically(path, lambda stream: stream.write(self.value))

    def restore(self, payload: bytes) -> str:
        self.value = payload
        return ""


@pytest.fixture(autouse=True)
def _usual_signals() -> Any:
    """A run notes signals; the next test wants the usual ones."""
    before = {number: signal.getsignal(number) for number in (signal.SIGUSR1, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def _catch_leaving(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave by an exception instead of ending the tests."""

    def leave(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(abort, "leave", leave)


def settings(folder: Path, **changed: Any) -> Namespace:
    parser = options.Parser("some_trainer", "what it does")
    options.add_common(parser, epochs=3, batch_size=5, base_lr=0.1, warmup=0, log_interval=2)
    args = parser.settings(["--output", str(folder)])
    for name, value in changed.items():
        setattr(args, name, value)
    return args


def run_of(folder: Path, hvd: OneRank | None = None, **changed: Any) -> Run:
    args, about = settings(folder, **changed), "things"
    found = {"torch": "2"}
    return Run(args, hvd or OneRank(), "some_trainer", device="cpu", versions=found, about=about)


def shards(size: int = 1, count: int = 20, seed: int = 1) -> common.Shards:
    return common.Shards(count, 0, size, seed, batch_size=5)


def train(run: Run, weights: Weights, *, stop_at: int = 0) -> Loop:
    """Do what a trainer does, its weights being the step that they were changed in."""
    run.begin(weights, shards(run.hvd.size()))
    for _ in run.epochs():
        for _ in run.batches():
            run.rate = 0.1
            weights.value = b"%d" % (run.loop.step + 1)
            run.step_done(3.5, stop=run.loop.step + 1 == stop_at)
        run.record_epoch(SUMS, seconds=1.0)
    return run.loop


def lines(folder: Path, event: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line for line in found if line["event"] == event]


def checkpoints(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


# Results


def test_result_keeps_the_first_epoch_out_of_the_speed(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    run.begin(Weights(), shards())
    for epoch in run.epochs():
        for _ in run.batches():
            run.rate = 0.1
            run.step_done(2.3, stop=False)
        run.record_epoch(SUMS, seconds=[10.0, 1.0, 3.0][epoch - 1])
    run.conclude([], extra=7)
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["samples_per_s"] == 50
    assert (result["first_epoch_seconds"], result["steady_epoch_seconds"]) == (10, 2)
    assert (result["accuracy"], result["test_loss"], result["steps"]) == (0.9, 0.4, 12)
    assert result["loss"] == 0.5
    assert (result["world_size"], result["controller"]) == (1, "gloo")
    assert result["startup_seconds"] > 0
    assert {"recipes", "python", "numpy", "torch"} == set(result["versions"])
    assert (result["arguments"]["base_lr"], result["extra"]) == (0.1, 7)


def test_an_epoch_is_recorded_with_means_over_all_ranks(tmp_path: Path) -> None:
    run = run_of(tmp_path, OneRank(size=2), epochs=1)
    run.begin(Weights(), shards(2))
    for _ in run.epochs():
        for _ in run.batches():
            run.rate = 0.1
            run.step_done(3.0, stop=False)
        run.epoch_done(lambda: [4.0, 9, 10])
    (epoch,) = lines(tmp_path, "epoch")
    # Two steps; of the samples rank 0 counts all, and this one stands for two.
    assert (epoch["loss"], epoch["test_loss"], epoch["accuracy"]) == (12 / 40, 0.4, 0.9)


def test_weights_that_differ_by_rank_leave_no_result(tmp_path: Path) -> None:
    run = run_of(tmp_path, OneRank(size=2))
    run.hvd.others = ("other weights",)
    with pytest.raises(RuntimeError, match="the weights of rank 1 differ"):
        run.conclude([])
    assert not (tmp_path / "result.json").exists()


def test_one_epoch_has_no_steady_speed(tmp_path: Path) -> None:
    run = run_of(tmp_path, epochs=1)
    train(run, Weights())
    run.conclude([])
    result = json.loads((tmp_path / "result.json").read_text())
    assert (result["samples_per_s"], result["steady_epoch_seconds"]) == (None, None)


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
    run_of(tmp_path).begin(Weights(), shards())
    assert not (tmp_path / "result.json").exists()
    assert (tmp_path / "metrics.jsonl").read_text() == ""


def test_other_ranks_write_and_say_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_of(tmp_path / "out", OneRank(rank=1, size=2))
    train(run, Weights())
    run.conclude([])
    assert capsys.readouterr().out == ""
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("_catch_leaving")
def test_output_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit) as caught:
        run_of(tmp_path / "file" / "out")
    assert caught.value.code == 2
    assert "cannot write to the output folder" in capsys.readouterr().err


def test_write_atomically_replaces_whole_files_only(tmp_path: Path) -> None:
    def half(stream: files.Hashed) -> None:
        stream.write(b"ha")
        raise OSError("disk full")

    path = tmp_path / "result.json"
    files.write_atomically(path, lambda stream: stream.write(b"old"))
    with pytest.raises(OSError, match="disk full"):
        files.write_atomically(path, half)
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [
        ("result.json", b"old")
    ]


def test_the_systems_error_is_told_although_the_writer_hides_it() -> None:
    """As torch.save does."""

    def hiding(stream: files.Hashed) -> None:
        try:
            stream.write(b"x" * 70000)
        except OSError:
            raise RuntimeError("unexpected pos 77632 vs 77584") from None

    with open("/dev/full", "wb", buffering=0) as full:
        stream = files.Hashed(full)
        with pytest.raises(OSError, match="No space left on device"):
            files._fill(stream, hiding)


# Checkpoints


def test_each_epoch_is_saved_and_the_newest_are_kept(tmp_path: Path) -> None:
    train(run_of(tmp_path, keep=2), Weights())
    stems = ["step-00000008", "step-00000012"]
    assert checkpoints(tmp_path) == [f"{s}.{ext}" for s in stems for ext in ("ckpt", "json")]


def test_a_run_goes_on_where_it_was_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(run_of(tmp_path, checkpoint_every=3, max_steps=6, keep=9), Weights())
    assert [name for name in checkpoints(tmp_path) if name.endswith("json")] == [
        "step-00000003.json",
        "step-00000006.json",
    ]
    weights = Weights()
    run = run_of(tmp_path, resume="auto", checkpoint_every=0)
    run.begin(weights, shards())
    assert weights.value == b"6"
    loop = run.loop
    assert (loop.step, loop.epoch, loop.taken, loop.last_step) == (6, 2, 10, 12)
    next(run.epochs())
    assert run.loss_sum == SUMS[0]
    said = capsys.readouterr().out
    assert "resumed at step 6, epoch 2" in said
    assert "changed since: max_steps: 6 -> None" in said
    assert "changed since: checkpoint_every: 3 -> 0" in said


def test_metrics_of_lost_steps_are_taken_away(tmp_path: Path) -> None:
    train(run_of(tmp_path, checkpoint_every=5, keep=9), Weights())
    (tmp_path / "checkpoints" / "step-00000012.json").unlink()
    (tmp_path / "checkpoints" / "step-00000010.json").unlink()
    with (tmp_path / "metrics.jsonl").open("a") as cut:
        cut.write('{"event": "step", "st')
    run = run_of(tmp_path, resume="auto")
    train(run, Weights())
    steps = [line["step"] for line in lines(tmp_path, "step")]
    assert steps == [2, 4, 6, 8, 10, 12]
    assert [line["epoch"] for line in lines(tmp_path, "epoch")] == [1, 2, 3]
    assert [line["step"] for line in lines(tmp_path, "resume")] == [5]
    run.conclude([])
    result = json.loads((tmp_path / "result.json").read_text())
    assert (result["resumed_at_steps"], result["epochs"]) == ([5], 3)


@pytest.mark.usefixtures("_catch_leaving")
def test_a_signal_ends_the_run_with_its_work_saved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_of(tmp_path)
    os.kill(os.getpid(), signal.SIGUSR1)
    with pytest.raises(SystemExit) as caught:
        train(run, Weights(), stop_at=6)
    assert caught.value.code == common.EXIT_SAVED == 91
    # The first epoch's end asks all ranks too.
    assert "stopped on SIGUSR1 after step 4; a checkpoint is saved" in capsys.readouterr().out
    assert "step-00000004.ckpt" in checkpoints(tmp_path)


@pytest.mark.usefixtures("_catch_leaving")
def test_a_signal_within_an_epoch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_of(tmp_path)
    with pytest.raises(SystemExit) as caught:
        train(run, Weights(), stop_at=6)
    assert caught.value.code == 91
    assert "after step 6" in capsys.readouterr().out
    manifest = json.loads((tmp_path / "checkpoints" / "step-00000006.json").read_text())
    assert manifest["position"]["taken"] == 10
    assert manifest["position"]["loss_sum"] == 7.0


def test_a_full_disk_is_told_and_the_old_checkpoint_stays_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = Weights()
    run = run_of(tmp_path, epochs=1)
    train(run, weights)
    before = checkpoints(tmp_path)
    weights.fails = True
    train(run_of(tmp_path, resume="auto"), weights)
    assert checkpoints(tmp_path) == before
    said = capsys.readouterr().out
    assert "warning: no checkpoint of step 8: No space left on device" in said
    assert "epoch   3" in said


@pytest.mark.usefixtures("_catch_leaving")
def test_a_stop_that_cannot_be_saved_is_not_called_saved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = Weights()
    weights.fails = True
    with pytest.raises(SystemExit) as caught:
        train(run_of(tmp_path), weights, stop_at=2)
    assert caught.value.code == 1
    assert "its checkpoint could not be saved" in capsys.readouterr().err


def saved(folder: Path, steps: int = 8) -> Checkpoints:
    """Train and return the checkpoints."""
    run = run_of(folder, max_steps=steps)
    train(run, Weights())
    return run.checkpoints


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    path.write_bytes(b"x" + path.read_bytes()[1:])


@pytest.mark.parametrize(
    ("spoil", "fault"),
    [(cut, "is cut: it has 0 of 1 bytes"), (flip, "is damaged"), (os.unlink, "cannot be read")],
)
def test_a_spoilt_checkpoint_is_named_and_the_one_before_used(
    tmp_path: Path, spoil: Any, fault: str
) -> None:
    there, said = saved(tmp_path), Said()
    newest = tmp_path / "checkpoints" / "step-00000008.ckpt"
    spoil(newest)
    found = there.newest("some_trainer", Weights().signature(), said.append)
    assert found is not None
    assert found[0].position.step == 4
    assert len(said) == 1
    assert str(newest) in said[0]
    assert fault in said[0]


def test_a_manifest_that_is_not_one_is_named(tmp_path: Path) -> None:
    there, said = saved(tmp_path), Said()
    (tmp_path / "checkpoints" / "step-00000008.json").write_text('{"position": 3}')
    found = there.newest("some_trainer", Weights().signature(), said.append)
    assert found is not None
    assert found[0].position.step == 4
    assert "step-00000008.json is not the manifest of a checkpoint" in said[0]


@pytest.mark.parametrize(
    ("trainer", "name", "fault"),
    [
        ("another", "w", "is a checkpoint of some_trainer, not of another"),
        ("some_trainer", "v", "is of another model: its weights have other names or shapes"),
    ],
)
def test_a_foreign_checkpoint_is_refused_and_nothing_begins_anew(
    tmp_path: Path, trainer: str, name: str, fault: str
) -> None:
    there = saved(tmp_path)
    with pytest.raises(UserError, match="none of the checkpoints") as caught:
        there.newest(trainer, Weights(name).signature(), lambda line: None)
    assert str(caught.value).count(fault) == 2
    assert "--resume never" in str(caught.value)


def test_auto_without_checkpoints_begins(tmp_path: Path) -> None:
    run = run_of(tmp_path, resume="auto")
    run.begin(Weights(), shards())
    assert run.loop.step == 0


@pytest.mark.parametrize(
    "word", ["", "checkpoints", "checkpoints/step-00000004.ckpt", "checkpoints/step-00000004.json"]
)
def test_resume_from_a_path(tmp_path: Path, word: str) -> None:
    saved(tmp_path / "old")
    own = Checkpoints(tmp_path / "new" / "checkpoints", 2)
    signature = Weights().signature()
    found = find(str(tmp_path / "old" / word), own, "some_trainer", signature, lambda line: None)
    assert found is not None
    assert found[0].position.step == (4 if "4" in word else 8)


def test_a_job_that_was_queued_again_goes_on_from_its_own_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(tmp_path / "old")
    own = saved(tmp_path / "new")
    old = str(tmp_path / "old" / "checkpoints" / "step-00000004.ckpt")
    signature = Weights().signature()
    steps = []
    for resume in ("never", "auto"):
        monkeypatch.setenv("RESUME", resume)
        found = find(old, own, "some_trainer", signature, lambda line: None)
        assert found is not None
        steps.append(found[0].position.step)
    assert steps == [4, 8]


@pytest.mark.parametrize("form", [None, 2])
def test_manifests_without_a_form_are_read_and_newer_ones_refused(
    tmp_path: Path, form: int | None
) -> None:
    there = saved(tmp_path)
    newest = max(there.folder.glob("*.json"))
    values = json.loads(newest.read_text())
    assert values.pop("form") == 1
    newest.write_text(json.dumps(values if form is None else {**values, "form": form}))
    told: list[str] = []
    found = there.newest("some_trainer", Weights().signature(), told.append)
    assert found is not None
    assert found[0].position.step == (8 if form is None else 4)
    assert told == ([] if form is None else [f"warning: not used: {newest} is of form 2: {NEWER}"])


def test_resume_from_where_there_is_nothing(tmp_path: Path) -> None:
    own = Checkpoints(tmp_path, 2)
    with pytest.raises(UserError, match="there is no checkpoint in"):
        find(str(tmp_path), own, "some_trainer", "", lambda line: None)
    with pytest.raises(UserError, match=r"nothing\.json is not the manifest"):
        find(str(tmp_path / "nothing.ckpt"), own, "some_trainer", "", lambda line: None)


@pytest.mark.usefixtures("_catch_leaving")
@pytest.mark.parametrize(
    ("given", "message"),
    [
        (shards(count=21), "with samples 20, and now it is 21: give the same to go on"),
        (shards(seed=2), "with --seed 1, and now it is 2: give the same to go on"),
    ],
)
def test_another_order_in_the_middle_of_an_epoch_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], given: common.Shards, message: str
) -> None:
    saved(tmp_path, steps=6)
    with pytest.raises(SystemExit) as caught:
        run_of(tmp_path, resume="auto").begin(Weights(), given)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.usefixtures("_catch_leaving")
def test_a_run_that_is_done_wants_more_epochs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved(tmp_path, steps=12)
    with pytest.raises(SystemExit):
        run_of(tmp_path, resume="auto").begin(Weights(), shards())
    text = "the checkpoint has 12 steps, 3 whole epochs; give more than --epochs 3"
    assert text in capsys.readouterr().err
    with pytest.raises(SystemExit):
        run_of(tmp_path, resume="auto", epochs=9, max_steps=12).begin(Weights(), shards())
    assert "give more than --max-steps 12" in capsys.readouterr().err


def test_what_changed_is_said() -> None:
    before = Manifest("t", "s", Position(), 20, 4, {"batch_size": 8, "output": "a"}, {})
    now = {"batch_size": 16, "output": "b"}
    assert changes(before, now, 2) == ["ranks: 4 -> 2", "batch_size: 8 -> 16"]


class Parts(Weights):
    """As FSDP's sharded ones: a folder, which each rank reads by itself."""

    def write(self, path: Path) -> common.Sum:
        path.mkdir()
        part = files.write_atomically(path / "part", lambda stream: stream.write(self.value))
        return common.Sum.of_folder({"part": part})

    def restore(self, payload: Any) -> str:
        self.value = (payload / "part").read_bytes()
        return ""


def test_a_folder_is_a_checkpoint_too_and_one_with_a_cut_part_is_none(tmp_path: Path) -> None:
    train(run_of(tmp_path, keep=2), Parts())
    older, newest = sorted((tmp_path / "checkpoints").glob("*.ckpt"))
    assert (older.name, newest.is_dir()) == ("step-00000008.ckpt", True)
    (newest / "part").write_bytes(b"1")
    parts = Parts()
    loop = train(run_of(tmp_path, resume="auto"), parts)
    assert (loop.first_step, parts.value) == (8, b"12")
    assert (newest / "part").read_bytes() == b"12"  # written once more


def test_other_trainers_checkpoints_are_not_taken_away(tmp_path: Path) -> None:
    there = saved(tmp_path)
    for step in (97, 98, 99):
        manifest = Manifest("another", "s", Position(step), 20, 1, {}, {})
        there.save(manifest, lambda path: files.write_atomically(path, lambda out: out.write(b"")))
    kept = [name for name in checkpoints(tmp_path) if name.endswith("json")]
    assert kept == [f"step-000000{n}.json" for n in ("04", "08", "98", "99")]


def test_a_result_that_cannot_be_written_is_a_failure(tmp_path: Path) -> None:
    """A job that has lost its result must not end well."""
    record = Record(tmp_path, say=print)
    (tmp_path / "result.json").mkdir()  # what no rename replaces
    with pytest.raises(UserError, match="could not be written") as told:
        record.result({"accuracy": 0.9})
    assert told.value.exit_code == 1


def test_a_line_of_metrics_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    """A limit on the size of files cuts a write as a full disk does."""
    text = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from recipes.common.record import Metrics\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (50, 50))\n"
        "metrics = Metrics(Path('metrics.jsonl'))\n"
        "for step in range(5):\n"
        "    try:\n"
        "        metrics.add({'event': 'step', 'step': step})\n"
        "    except OSError as error:\n"
        "        print(error.strerror)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(common.__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.stdout.count("\n") == 4, done.stderr
    (line,) = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert json.loads(line) == {"event": "step", "step": 0}
