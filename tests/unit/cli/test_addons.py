"""Commands of add-ons: found for what the kit does not know, and harmless to what it does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Callable

import pytest

from tests import addons, documents

from ..in_process import Done, runner

Run = Callable[..., Done]
COMMAND = """
import click

@click.command()
def command():
    "Say hello."
    click.echo("hello")
"""
WORDS = ("--image", "horovod_gpu.sif", "--site", "tuhpc", "--nodes", "2", "torch_mnist")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `runner` where no add-on is found but those of the test."""
    own = set(addons.paths())
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in own])
    return lambda *words: runner(monkeypatch, capsys, *words)


@pytest.fixture
def offer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Install an add-on with this text of its module; its commands are of the names."""

    def made(text: str, *names: str, place: str = "command", summary: str = "Greets.") -> None:
        module = f"addon_{len(list(tmp_path.iterdir()))}"
        (tmp_path / f"{module}.py").write_text(text)
        commands = dict.fromkeys(names, f"{module}:{place}")
        addons.write_metadata(tmp_path, module.replace("_", "-"), commands, "3.1", summary)
        monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
        monkeypatch.delitem(sys.modules, module, raising=False)  # of another test

    return made


def test_a_command_of_an_add_on(run: Run, offer: Callable[..., None]) -> None:
    offer(COMMAND, "greet")
    assert run("greet") == (0, "hello\n", "")
    said = run("--help").stdout
    assert "\nAdd-ons:\n  greet        Greets.\n" in said
    assert "did you mean greet?" in run("gret").stderr
    assert "Add-ons" not in run("plan", "--help").stdout


def test_an_add_on_of_ours_that_is_not_installed(run: Run) -> None:
    done = run("convert", "job.sh", "--check")
    assert done.returncode == 2
    assert "runner: the command 'convert' is an add-on, which is not installed\n" in done.stderr
    assert done.stderr.endswith(f"  try: {sys.executable} -m pip install ./addons/convert\n")
    assert (documents.ROOT / "addons/convert/pyproject.toml").exists()
    assert "did you mean convert?" in run("convrt").stderr
    assert "Add-ons" not in run("--help").stdout


def test_no_add_on_replaces_a_command_of_the_kit(run: Run, offer: Callable[..., None]) -> None:
    offer(COMMAND, "recipes", "greet")
    assert "hello" not in run("recipes").stdout
    done = run("--help")
    assert done.stdout.count("  recipes ") == 1
    told = "runner: warning: the command 'recipes' of addon-0 3.1 is left out: runner has its own"
    assert done.stderr == f"{told}\n"
    assert run("greet").stdout == "hello\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import absent_module", "ModuleNotFoundError: No module named 'absent_module'"),
        ("command = ", "SyntaxError: "),
        ("raise SystemExit(0)", "SystemExit: 0"),
        ("other = 1", "AttributeError: "),
        ("command = 1", "addon_0:command is not a click command"),
    ],
)
def test_one_that_cannot_be_imported_costs_its_own_command(
    text: str, reason: str, run: Run, offer: Callable[..., None]
) -> None:
    offer(text, "greet")
    offer(COMMAND, "wave")
    done = run("greet")
    assert done.returncode == 1
    assert done.stderr.startswith(
        f"runner: the add-on addon-0 3.1, which has the command 'greet', cannot be loaded\n"
        f"  {reason}"
    )
    assert "Traceback" not in done.stderr
    assert run("wave").stdout == "hello\n"
    said = run("--help")
    assert said.returncode == 0
    assert "  greet " in said.stdout


def test_metadata_that_cannot_be_read_disturbs_no_other(
    run: Run, offer: Callable[..., None], tmp_path: Path
) -> None:
    offer(COMMAND, "greet")
    broken = tmp_path / "broken-1.dist-info"
    broken.mkdir()
    (broken / "entry_points.txt").write_bytes(b"[horovod_runner.commands]\n\xff = \xff\n")
    done = run("--help")
    assert "  greet " in done.stdout
    assert "warning: entry points of a package cannot be read: " in done.stderr


def test_a_command_of_the_kit_does_not_look_for_add_ons(
    offer: Callable[..., None], tmp_path: Path
) -> None:
    """In a process of its own: this one has looked."""
    offer("raise SystemExit('imported')", "greet", "recipes")
    text = (
        "import sys; from runners.cli import cli\n"
        "cli.main(['recipes'], standalone_mode=False)\n"
        "assert not {'runners.cli.addons', 'importlib.metadata', 'addon_0'} & set(sys.modules)\n"
    )
    path = os.pathsep.join([str(tmp_path), str(documents.ROOT)])
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, "-c", text]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    command = [sys.executable, "-m", "runners", "plan", *WORDS]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_tab_key_completes_their_commands(
    run: Run, offer: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(COMMAND, "greet")
    offer("import absent_module", "grumble")
    monkeypatch.setenv("_RUNNER_COMPLETE", "bash_complete")
    for words, fits in {
        "runner gr": ["plain,greet", "plain,grumble"],
        "runner greet --h": ["plain,--help"],
        "runner grumble --h": ["plain,--help"],  # runner's own
        "runner convert --h": ["plain,--help"],
    }.items():
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
        done = run()
        assert (done.stdout.splitlines(), done.stderr) == (fits, "")
