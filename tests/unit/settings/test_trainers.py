"""What TRAINER stands for, and `runner recipes`."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from runners.cli import cli
from runners.cli.train.recipes import recipes_command
from runners.core.errors import UsageError
from runners.settings import recipe_copy, trainers

from .. import sentences


def recipes(*words: str) -> Result:
    return CliRunner().invoke(recipes_command, words, catch_exceptions=False)


def test_recipes_are_listed_with_their_framework() -> None:
    listed = recipes().output.splitlines()
    assert listed[0].split()[:3] == ["name", "kind", "framework"]
    assert any(line.split()[:3] == ["torch_mnist", "full", "pytorch"] for line in listed)
    assert any(line.split()[:3] == ["minimal_torch", "minimal", "pytorch"] for line in listed)
    assert max(map(len, listed)) <= 80
    assert json.loads(recipes("--json").output)["tf_mnist"]["framework"] == "tensorflow"


def test_a_recipe_is_copied_whole(tmp_path: Path) -> None:
    done = recipes("copy", "torch_mnist", str(tmp_path))
    assert f"runner launch --image IMAGE --nodes 2 {tmp_path}/torch_mnist.py" in done.output
    original = trainers.RECIPES / "torch_mnist.py"
    assert (tmp_path / "torch_mnist.py").read_bytes() == original.read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"torch_mnist.py", "recipes"}


def test_a_copy_brings_what_it_imports_and_no_more(tmp_path: Path) -> None:
    assert "imports nothing of ours" in recipes("copy", "minimal_ddp", str(tmp_path)).output
    assert [path.name for path in tmp_path.iterdir()] == ["minimal_ddp.py"]
    told = recipes("copy", "torch_mnist", str(tmp_path)).output
    names = ["agreement", "checkpoints", "device", "distributed", "options", "results", "run"]
    names.append("run_torch")
    copied = {path.stem for path in (tmp_path / "recipes").iterdir()}
    assert copied == {"__init__", "digits", *names}
    assert all(f"{name}.py" in told for name in names)


def test_a_copy_hides_no_module_of_pythons_own(tmp_path: Path) -> None:
    """Beside a tokenize.py the import of inspect, and so of torch, would fail."""
    told = recipes("copy", "tokenize", str(tmp_path)).output
    assert f"next: runner launch --image IMAGE {tmp_path}/my_tokenize.py" in told
    assert {path.name for path in tmp_path.iterdir()} == {"my_tokenize.py", "recipes"}


def test_a_copy_imports_its_own_modules(tmp_path: Path) -> None:
    """Where nothing of the kit is installed."""
    recipe_copy.copy("tf_resnet", tmp_path, force=False)
    own = (
        "import sys; sys.path.insert(0, '.'); from recipes import images, run; print(run.__file__)"
    )
    command = [sys.executable, "-S", "-c", f"import sys; sys.path += {sys.path!r}; {own}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert Path(done.stdout.strip()) == tmp_path / "recipes" / "run.py"


def test_a_second_copy_shares_the_modules_and_keeps_edited_ones(tmp_path: Path) -> None:
    recipe_copy.copy("torch_mnist", tmp_path, force=False)
    recipe_copy.copy("torch_lm", tmp_path, force=False)
    (tmp_path / "recipes" / "run.py").write_text("# mine")
    with sentences.raises("copy-exists"):
        recipe_copy.copy("torch_resnet", tmp_path, force=False)
    assert not (tmp_path / "torch_resnet.py").exists()


@pytest.mark.parametrize(
    ("name", "words", "world"),
    [
        ("torch_lm", (), "Horovod"),
        ("torch_lm", ("--exchange", "fsdp"), "torch.distributed"),
        ("torch_resnet", ("--epochs", "2", "--exchange=ddp"), "torch.distributed"),
        ("lightning_mnist", ("--exchange", "horovod"), "Horovod"),
        ("torch_mnist", ("--exchange", "ddp"), "torch.distributed"),
        ("tf_mnist", ("--exchange", "mirrored"), "tf.distribute"),
    ],
)
def test_what_forms_the_process_group_depends_on_the_exchange(
    name: str, words: tuple[str, ...], world: str
) -> None:
    assert trainers.find(name, words)[0].world == world


@pytest.mark.parametrize("name", ["torch_mnist", "torch_lm", "torch_resnet", "lightning_mnist"])
def test_so_it_does_for_a_copy_and_its_edited_default(tmp_path: Path, name: str) -> None:
    """As the plan then starts no Horovod, and asks for no MPI."""
    recipe_copy.copy(name, tmp_path, force=False)
    copy = tmp_path / f"{name}.py"
    for words, world in (((), "Horovod"), (("--exchange", "ddp"), "torch.distributed")):
        assert trainers.find(str(copy), words)[0].world == world
    edited = copy.read_text().replace('default="horovod"', 'default="ddp"')
    copy.write_text(edited)
    assert trainers.find(str(copy), ())[0].world == "torch.distributed"
    assert trainers.find(str(copy), ("--exchange", "horovod"))[0].world == "Horovod"


def test_another_scripts_exchange_is_its_own_matter(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text('add("--exchange", choices=("ddp", "x"), default="ddp")\n')
    assert trainers.find(str(script), ("--exchange", "ddp"))[0].world is None


def test_a_minimal_one_is_launched_by_its_name() -> None:
    trainer, preset = trainers.find("minimal_torch", ())
    assert (trainer.name, trainer.module) == ("minimal_torch", "recipes.minimal.minimal_torch")
    assert preset is not None


@pytest.mark.parametrize("name", [*trainers.presets()])
def test_options_are_shown_without_the_framework(name: str) -> None:
    shown = recipes("show", name).output
    special = {"tokenize": ["TEXT", "--into"], "torch_predict": ["--checkpoint", "--data"]}
    assert all(word in shown for word in special.get(name, ["--epochs", "--batch-size"]))
    nodes = "" if name == "tokenize" else "--nodes 2 "
    assert f"runner launch --image IMAGE {nodes}{name} -- OPTIONS" in shown


@pytest.mark.parametrize(
    ("trainer", "words", "id"),
    [
        ("torch_mnist", ["--epochz", "1"], "trainer-option-unknown"),
        ("torch_mnist", ["--epoch=1"], "trainer-option-unknown"),
        ("minimal_torch", ["--lr", "1"], "trainer-option-unknown"),
        ("tf_mnist", ["5"], "trainer-option-unknown"),
        ("tokenize", [], "trainer-arguments"),
        ("tokenize", ["--into", "x"], "trainer-arguments"),
        ("tokenize", ["a", "--into", "x", "--vocabulary", "9"], "trainer-arguments"),
        ("torch_predict", ["--data", "x"], "trainer-arguments"),
        ("tf_mnist", ["--epochs", "0"], "trainer-arguments"),
        ("minimal_keras", ["--epochs", "x"], "trainer-arguments"),
        ("keras_mnist", ["--adasum"], "trainer-option-unknown"),
    ],
)
def test_a_wrong_option_is_refused_before_there_is_a_job(
    trainer: str, words: list[str], id: str
) -> None:
    with pytest.raises(UsageError) as caught:
        cli.main(["launch", trainer, "--", *words], "runner", standalone_mode=False)
    first, *_ = caught.value.faults  # what else is wrong depends on the machine
    assert sentences.told(first) == (id, f"runner recipes show {trainer}")


def test_a_wrong_value_of_a_sweep_is_refused_too() -> None:
    with sentences.raises("trainer-arguments"):
        trainers.check_arguments("torch_mnist", ["--epochs", "0"])


def test_trainers_help_is_answered_at_once() -> None:
    done = CliRunner().invoke(cli, ["launch", "tf_resnet", "--", "--help"], catch_exceptions=False)
    assert done.exit_code == 0
    assert "--label-smoothing" in done.output


def test_options_of_ones_own_trainer_are_its_own(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("parser = 1 / 0\n")
    trainers.check_arguments(str(tmp_path / "own.py"), ["--anything"])


def test_a_copy_that_was_edited_stays(tmp_path: Path) -> None:
    mine = tmp_path / "torch_mnist.py"
    mine.write_text("mine")
    again = f"runner recipes copy --force torch_mnist {tmp_path}"
    with sentences.raises("copy-exists", again):
        recipe_copy.copy("torch_mnist", tmp_path, force=False)
    assert mine.read_text() == "mine"
    assert recipes(*again.split()[2:]).exit_code == 0
    assert mine.read_text() != "mine"


def test_names_and_folders_that_are_not_there(tmp_path: Path) -> None:
    with sentences.raises("recipe-unknown"):
        recipe_copy.copy("torch_mnst", tmp_path, force=False)
    with sentences.raises("copy-folder-missing", f"mkdir -p '{tmp_path}/a b'"):
        recipe_copy.copy("torch_mnist", tmp_path / "a b", force=False)


def test_a_file_tells_whether_it_needs_the_recipes(tmp_path: Path) -> None:
    copied, *shared = recipe_copy.copy("torch_mnist", tmp_path, force=False)
    other = tmp_path / "other.py"
    other.write_text("print('from recipes, nothing')\nimport recipes_of_mine\n")
    assert not trainers.find(str(copied), ())[0].uses_recipes  # it has brought them
    shutil.rmtree(shared[0].parent)
    assert trainers.find(str(copied), ())[0].uses_recipes
    assert not trainers.find(str(other), ())[0].uses_recipes


def test_a_sweep_gives_what_is_required_itself() -> None:
    with sentences.raises("trainer-arguments"):
        trainers.find("torch_predict", ())
    assert trainers.find("torch_predict", (), True)[0].name == "torch_predict"
