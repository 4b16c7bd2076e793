"""Whether a script seems to write a rate, and the warning before a study of one that does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from runners.core.trainer import Trainer
from runners.scale.drafts import rate_warnings
from tests.unit.in_process import runner

ALONE = "import torch\nprint('loss 0.1')\n"
HERE = 'json.dump({"samples_per_s": 81.0}, file)\n'


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder / "t.py"


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"t.py": ALONE}, True),
        ({"t.py": ALONE + HERE}, False),
        ({"t.py": 'result[f"{unit}_per_s"] = rate\n'}, False),
        ({"t.py": "from helpers import write\n", "helpers.py": HERE}, False),
        ({"t.py": "import ours.log\n", "ours/__init__.py": "", "ours/log.py": HERE}, False),
        ({"t.py": "import helpers\n", "helpers.py": ALONE}, True),
        ({"t.py": ALONE, "unrelated.py": HERE}, True),
        ({"t.py": ALONE, "torch/data.py": HERE}, True),  # a folder, and no package
    ],
)
def test_a_script_without_a_rate_is_told(tmp_path: Path, files: dict[str, str], told: bool) -> None:
    trainer = Trainer("t", None, write(tmp_path, files))
    assert bool(rate_warnings(trainer)) is told


def test_what_is_no_script_of_ones_own_is_not_told(tmp_path: Path) -> None:
    file = write(tmp_path, {"t.py": ALONE, "t.sh": "python t.py\n"})
    assert not rate_warnings(Trainer("torch_mnist", "recipes.torch_mnist", None))
    assert not rate_warnings(Trainer("t", None, file, uses_recipes=True))
    assert not rate_warnings(Trainer("bash", None, file.with_suffix(".sh"), program="bash"))
    assert rate_warnings(Trainer("t.py", None, file, program="python"))


def test_a_dry_run_of_a_study_warns(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(here, {"t.py": ALONE})
    site = ("--site", "perlmutter", "-A", "m1_g", "--gpus-per-node", "4", "--image", "ada/hvd:1")
    done = runner(monkeypatch, capsys, "scale", "--dry-run", *site, "--nodes", "1,2", "t.py")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("warning: t.py seems to write no rate") == 1
    assert "2n-r3" in done.stdout
