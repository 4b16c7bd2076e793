"""Folders of a launch line: that of `cd`, that of the submission, and what was named before."""

from __future__ import annotations

import pytest

from .read_script import line

BEGIN = "#SBATCH --nodes=1\n"
COUNTS = "--nodes 1 --ntasks 1 --runtime none"

# Commands, and the line without its counts.
FOLDERS = {
    "an environment before": (
        "source ./env/bin/activate\ncd a/b\npython t.py",
        f"cd a/b && {COUNTS} --image $OLDPWD/env t.py",
    ),
    "an environment of another folder": (
        "cd /x\nsource env/bin/activate\ncd y\npython t.py",
        f"cd /x/y && {COUNTS} --image /x/env t.py",
    ),
    "an environment of the same folder": (
        "cd /x\nsource env/bin/activate\npython t.py",
        f"cd /x && {COUNTS} --image ./env t.py",
    ),
    "a name of conda": (
        "conda activate /e\ncd a\npython t.py",
        f"cd a && {COUNTS} --image /e t.py",
    ),
    "an environment above a relative folder": (
        "cd a\nsource ../venv/bin/activate\ncd ../src\npython t.py",
        f"cd src && {COUNTS} --image $OLDPWD/a/../venv t.py",
    ),
    "an environment with a variable": (
        "cd code\nsource envs/$E/bin/activate\ncd ../run\npython t.py",
        f"cd run && {COUNTS} --image $OLDPWD/code/envs/$E t.py",
    ),
    "the folder before": (
        "D=$PWD/data\ncd a\npython t.py $D",
        f"cd a && {COUNTS} t.py -- $OLDPWD/data",
    ),
    "the folder of the submission": (
        "cd $SLURM_SUBMIT_DIR\ncd a\npython t.py $SLURM_SUBMIT_DIR/b",
        f"cd $PWD/a && {COUNTS} t.py -- $OLDPWD/b",
    ),
    "a part of the folder of the submission": (
        "cd src\npython t.py ${SLURM_SUBMIT_DIR%/}/data ${PBS_O_WORKDIR:+x}",
        f'cd src && {COUNTS} t.py -- "${{OLDPWD%/}}/data" ${{OLDPWD:+x}}',
    ),
    "a part of it without cd": (
        "python t.py ${PBS_O_WORKDIR##*/}",
        f'{COUNTS} t.py -- "${{PWD##*/}}"',
    ),
    "a folder by default": (
        "D=${DATA:-$PWD/data}\ncd a\npython t.py $D",
        f'cd a && {COUNTS} t.py -- "${{DATA:-$OLDPWD/data}}"',
    ),
    "a part by a variable of the script": (
        "X=/old\npython t.py ${HOME%$X}",
        f"{COUNTS} t.py -- '<${{HOME%$X}}>'",
    ),
    "folders of shells in the background": (
        "(cd a) &\ncd b && sleep 1 &\npython t.py",
        f"{COUNTS} t.py",
    ),
    "the folder within": ("cd a\npython $PWD/t.py", f"cd a && {COUNTS} $OLDPWD/a/t.py"),
    "back": ("cd a\ncd -\npython t.py $PWD", f"{COUNTS} t.py -- $PWD"),
    "below that of the directive": (
        "#SBATCH -D /x\ncd a\npython t.py $PWD $SLURM_SUBMIT_DIR",
        f"cd /x/a && {COUNTS} t.py -- /x/a $OLDPWD",
    ),
}


@pytest.mark.parametrize(("text", "expected"), [*FOLDERS.values()])
def test_a_folder(text: str, expected: str) -> None:
    assert line(BEGIN + text).replace("runner launch ", "") == expected


def test_each_rank_knows_its_folder() -> None:
    text = "cd a\nsrun bash -c 'python $PWD/t.py --rank $SLURM_PROCID'"
    assert '\'exec python "$PWD/t.py" --rank' in line(BEGIN + text)
