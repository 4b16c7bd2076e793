"""`runner site-setup`: what it makes of a profile, what it refuses, and what it leaves behind."""

from __future__ import annotations

import json
import os
import re
import shlex
import stat
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from containers import atomic
from runners import __version__
from runners.cli.site_setup import site_setup_command
from runners.core.errors import Refused, SystemFault, UsageError
from runners.core.site_profile import Prebuilt
from runners.settings.sites import lint, load
from runners.site_setup import folder, guide, installation
from runners.site_setup.folder import SetUp
from tests import documents

from . import scripts
from .sites import SHIPPED, environment, shipped, write
from .test_docs import parse, runner_words

OTHERS = ("module", "source", "cd", "ls")  # commands of the guide that are not ours
MINE = 'title = "Mine"\nbase = "slurm"\n[detect]\nclusters = ["mine"]\n[launch]\nqos = "q"\n'


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The checkout counts as an installation, this machine as one of no site."""
    monkeypatch.setattr(installation, "WHERE", f"print({str(installation.PACKAGE)!r})")
    for name, value in {**environment(tmp_path / "config"), "PATH": "/nowhere"}.items():
        monkeypatch.setenv(name, value)


def made(*words: str) -> Result:
    return CliRunner().invoke(site_setup_command, words, catch_exceptions=False)


def tree(root: Path) -> dict[str, str]:
    """Return the text of each file below a folder."""
    files = (path for path in sorted(root.rglob("*")) if path.is_file())
    return {str(path.relative_to(root)): path.read_text(encoding="utf-8") for path in files}


@pytest.mark.parametrize("name", SHIPPED)
def test_every_command_of_the_guide_parses(name: str) -> None:
    text = guide.text(SetUp(Path("/apps/it's here")), shipped(name))
    blocks = documents.blocks_of(f"guide of {name}", text)
    assert sum(len(block.commands) for block in blocks) > 10
    for command in (command for block in blocks for command in block.commands):
        words = runner_words(command)
        assert words or shlex.split(command)[0] in OTHERS, command
        if words:
            parse(words)


@pytest.mark.parametrize("name", SHIPPED)
def test_its_first_job_is_one_that_the_site_takes(name: str, tmp_path: Path) -> None:
    text = guide.text(SetUp(Path("/apps/runner")), shipped(name))
    (command,) = re.findall(r"^\$ (runner plan .*)$", text, re.MULTILINE)
    labels = tmp_path / "sandbox" / ".singularity.d" / "labels.json"
    labels.parent.mkdir(parents=True)
    labels.write_text(json.dumps({**scripts.MPICH, "horovod.version": "0.28.1"}))
    words = [re.sub(r"^horovod_.pu\.sif$", "sandbox", word) for word in runner_words(command)]
    done = subprocess.run(
        [sys.executable, "-m", "runners", words[0], "--site", name, "--json", *words[1:]],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(documents.ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    refusals = [each["what"] for each in json.loads(done.stdout)["refusals"]]
    # tuhpc is taken to be here, where the test's folder is below /tmp.
    assert [what for what in refusals if "do not see" not in what] == [], done.stderr


def test_a_packaged_profile_gets_what_it_does_not_name(tmp_path: Path) -> None:
    root = tmp_path / "apps"
    done = made("--site", "tuhpc", str(root))
    assert done.exit_code == 0, done.output
    assert sorted(tree(root)) == [
        f"{__version__}/bin/runner",
        f"{__version__}/completion/runner.bash",
        f"{__version__}/completion/runner.fish",
        f"{__version__}/completion/runner.zsh",
        f"{__version__}/guide.md",
        f"modulefiles/horovod-runner/{__version__}",
        "site-setup.json",
        "sites/tuhpc.toml",
    ]
    assert f"module use {root}/modulefiles" in done.output
    # As the users have it with the module loaded.
    env = {**environment(tmp_path / "ada"), "RUNNER_SITES_PATH": f"{root}/sites"}
    assert lint.faults(root / "sites" / "tuhpc.toml", env) == []
    profile = load.profile("tuhpc", env)
    assert profile.folder("images", env) == root / "images"
    assert profile.folder("datasets", env) == root / "data"
    assert profile.launch == shipped("tuhpc").launch
    assert (root / "images").is_dir()
    assert 'setenv RUNNER_SITE "tuhpc"' in module_text(root), "nothing else tells that it is here"
    assert f"ls {root}/data" in tree(root)[f"{__version__}/guide.md"]


def test_the_guide_pulls_the_image_from_the_sites_source() -> None:
    site = shipped("tuhpc")
    setup = SetUp(Path("/apps/runner"))
    assert "runner build cpu" in guide.text(setup, site)
    text = guide.text(setup, replace(site, images=Prebuilt("/apps/images")))
    assert "$ runner pull cpu\n" in text
    assert "runner build" not in text


def test_a_profile_that_names_its_folders_gets_none(tmp_path: Path) -> None:
    made("--site", "neuron", str(tmp_path / "apps"))
    assert not (tmp_path / "apps" / "sites").exists()
    assert "RUNNER_SITE" not in module_text(tmp_path / "apps")


def test_twice_gives_the_same(tmp_path: Path) -> None:
    root = tmp_path / "apps"
    made("--site", "alvis", str(root))
    first = tree(root)
    assert made("--site", "alvis", str(root)).exit_code == 0
    assert tree(root) == first


def test_the_administrators_own_profile_goes_with_it(tmp_path: Path) -> None:
    write(tmp_path / "config", "mine", MINE)
    root = tmp_path / "apps"
    done = made("--site", "mine", "--json", str(root))
    assert json.loads(done.stdout)["profiles"] == [
        f"{root}/sites/own/mine.toml",
        f"{root}/sites/mine.toml",
    ]
    for name in ("sites", "sites/own"):
        assert f'append-path RUNNER_SITES_PATH "{root}/{name}"' in module_text(root)
    assert 'append-path RUNNER_SITES_PATH "/etc/runner/sites"' in module_text(root)
    profile = load.profile("mine", with_module(tmp_path / "ada", root))
    assert profile.launch == {"qos": "q"}
    assert profile.paths["images"] == str(root / "images")


def test_again_with_the_module_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file that was changed counts, and not its copy; without the file its copy does."""
    original = write(tmp_path / "config", "neuron", 'base = "neuron"\nlogin = "one"\n')
    root = tmp_path / "apps"
    made("--site", "neuron", str(root))
    env = with_module(tmp_path / "ada", root)
    assert load.profile("neuron", env).login == "one"
    monkeypatch.setenv("RUNNER_SITES_PATH", env["RUNNER_SITES_PATH"])
    original.write_text('base = "neuron"\ncontact = "two"\n')
    assert made("--site", "neuron", str(root)).exit_code == 0
    assert load.profile("neuron", env).login == shipped("neuron").login
    assert "Ask two" in tree(root)[f"{__version__}/guide.md"]
    original.unlink()
    assert made("--site", "neuron", str(root)).exit_code == 0
    assert load.profile("neuron", env).contact == "two"


def module_text(root: Path) -> str:
    return (root / "modulefiles" / "horovod-runner" / __version__).read_text()


def with_module(config: Path, root: Path) -> Mapping[str, str]:
    """Return the environment of a user who has loaded the module."""
    folders = re.findall(r'^append-path RUNNER_SITES_PATH "(.*)"$', module_text(root), re.MULTILINE)
    return {**environment(config), "RUNNER_SITES_PATH": ":".join(folders)}


def test_two_own_files_of_one_name_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "config", "mine", 'base = "mine"\n')
    write(tmp_path / "more", "mine", MINE)
    monkeypatch.setenv("RUNNER_SITES_PATH", str(tmp_path / "more" / "runner" / "sites"))
    with pytest.raises(Refused, match=r"made of two files named mine\.toml"):
        made("--site", "mine", str(tmp_path / "apps"))


def test_it_is_for_everybody_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        made("--site", "tuhpc", str(tmp_path / "apps"))
        assert os.umask(0o077) == 0o077
    finally:
        os.umask(before)
    for path in (tmp_path / "apps", *(tmp_path / "apps").rglob("*")):
        executable = path.is_dir() or path.name == "runner"
        assert stat.S_IMODE(path.stat().st_mode) == (0o755 if executable else 0o644), path


def test_a_closed_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir(mode=0o700)
    done = made("--site", "tuhpc", str(tmp_path / "home" / "apps"))
    assert "warning: the set-up is not for all: others may not enter or read " in done.stderr


@pytest.mark.parametrize(
    "name",
    ["a b", "a\nb", "a\tb", "é", "$HOME", "a{b", "a}b", 'a"b', "a\\b", "a:b", "]===]", "a\x7f"],
)
def test_names_that_no_module_is_loaded_from_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="no module can be loaded from"):
        made("--site", "neuron", str(tmp_path / name))
    assert not (tmp_path / name).exists()


def test_a_folder_of_other_things_is_refused(tmp_path: Path) -> None:
    (tmp_path / "apps").mkdir()
    (tmp_path / "apps" / "thesis.tex").write_text("")
    with pytest.raises(Refused, match="holds other things") as raised:
        made("--site", "neuron", str(tmp_path / "apps"))
    assert "thesis.tex" in raised.value.evidence
    assert os.listdir(tmp_path / "apps") == ["thesis.tex"]
    with pytest.raises(Refused, match="is a file"):
        made("--site", "neuron", str(tmp_path / "apps" / "thesis.tex"))
    with pytest.raises(SystemFault, match="Not a directory"):
        made("--site", "neuron", str(tmp_path / "apps" / "thesis.tex" / "below"))


def test_a_set_up_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atomic, "new_file", full)
    with pytest.raises(SystemFault, match="No space left"):
        made("--site", "neuron", str(tmp_path / "apps"))
    assert os.listdir(tmp_path) == []
    (tmp_path / "apps").mkdir()
    with pytest.raises(SystemFault):
        made("--site", "neuron", str(tmp_path / "apps"))
    monkeypatch.undo()
    assert folder.at(tmp_path / "apps"), "and can be set up again"


def full(path: Path) -> None:
    raise OSError(28, "No space left on device", str(path))


def test_without_a_site(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no site is in force here") as raised:
        made(str(tmp_path / "apps"))
    assert "runner site-setup --site NAME FOLDER" in str(raised.value)
    with pytest.raises(UsageError, match="there is no site named 'neuronn'") as raised:
        made("--site", "neuronn", str(tmp_path / "apps"))
    assert "did you mean neuron?" in str(raised.value)
    with pytest.raises(UsageError, match="--site none has no profile"):
        made("--site", "none", str(tmp_path / "apps"))
    assert not (tmp_path / "apps").exists()


def test_a_checkout_is_no_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "WHERE", "import runners.nowhere")
    with pytest.raises(Refused, match="this runner is not installed") as raised:
        made("--site", "neuron", str(tmp_path / "apps"))
    assert "-m venv /SHARED/runner && /SHARED/runner/bin/pip install" in str(raised.value)
    assert not (tmp_path / "apps").exists()


def test_another_machines_site_is_made_with_a_warning(tmp_path: Path) -> None:
    done = made("--site", "neuron", str(tmp_path / "apps"))
    assert "warning: this machine is not of neuron, by its profile" in done.stderr


def test_the_launcher_heeds_no_variables_of_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "it's $(touch x)" / "python"
    python.parent.mkdir()
    python.write_text('#!/bin/sh\nprintf "<%s>" "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(installation, "ISOLATED", [str(python), "-I"])
    program = tmp_path / "runner"
    program.write_text(installation.launcher())
    program.chmod(0o755)
    done = subprocess.run([program, "a b", "", "$x"], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == "<-I><-m><runners><a b><><$x>"
    assert not (tmp_path / "x").exists()


def test_names_of_commands_complete_without_their_modules() -> None:
    """Each press of Tab is a process; the 18 modules of all commands take most of a second."""
    script = (
        "import sys, click; from runners.cli import cli\n"
        "items = cli.shell_complete(click.Context(cli), sys.argv[1])\n"
        "print([i.value for i in items], [m for m in sys.modules if m.startswith('runners.cli.')])"
    )

    def completed(word: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", script, word],
            env={"PYTHONPATH": str(documents.ROOT)},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    assert completed("la") == "['launch'] []"
    assert completed("--v") == "['--version'] []"
    assert "'site-setup'" in completed("")
