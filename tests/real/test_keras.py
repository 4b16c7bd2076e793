"""Keras 2 and 3 with Horovod: each form of a script trains one model, on two and four ranks.

The fast test of `keras_forms.py` takes half of its combinations, in which each two choices meet.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Login, succeeded

pytestmark = pytest.mark.unpacked

WORLDS = Path(__file__).parent / "worlds"
BOTH_KERASES = ("--env", "TF_USE_LEGACY_KERAS=1")


@pytest.mark.parametrize(
    ("script", "controller", "ranks", "words"),
    [
        pytest.param("keras_forms.py", "gloo", 2, (), marks=pytest.mark.slow),
        ("keras_forms.py --half", "mpi", 2, BOTH_KERASES),
        pytest.param("keras_forms.py", "mpi", 2, BOTH_KERASES, marks=pytest.mark.slow),
        pytest.param("keras_forms.py", "mpi", 4, BOTH_KERASES, marks=pytest.mark.slow),
        ("keras_traps.py", "gloo", 2, ()),
        pytest.param("keras_traps.py", "gloo", 4, (), marks=pytest.mark.slow),
        pytest.param("keras_traps.py", "mpi", 2, (), marks=pytest.mark.slow),
    ],
)
def test_every_form_trains_one_model(
    login: Login, script: str, controller: str, ranks: int, words: tuple[str, ...]
) -> None:
    login.write_all(WORLDS.glob("keras_*.py"))
    shape = ("--nodes", "2", "--ntasks", str(ranks), "--overcommit", "--controller", controller)
    file, *options = script.split()
    trainer = [file, "--", *options] if options else [file]
    done = succeeded(login.launch(*shape, *words, "--follow", "--all", *trainer))
    assert done.stdout.count("forms are right") == ranks, done.stdout
