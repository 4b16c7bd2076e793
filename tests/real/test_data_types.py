"""Horovod with our edits reduces bfloat16 and 8-bit integers, and knows MPICH 4."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Login, succeeded

pytestmark = pytest.mark.unpacked

WORLDS = Path(__file__).parent / "worlds"
MPICH = """\
#!/bin/sh
case $1 in --version) echo "HYDRA build details:" ;; *) echo "$@" ;; esac
"""


# Four ranks, with process sets of two and three. Torch's types meet both controllers, which add
# them up; what TensorFlow hands to Horovod is the same for each.
@pytest.mark.parametrize(
    ("script", "controller"),
    [
        ("data_types.py", "gloo"),
        ("data_types.py", "mpi"),
        ("data_types_tf.py", "mpi"),
        pytest.param("data_types_tf.py", "gloo", marks=pytest.mark.slow),
    ],
)
def test_every_data_type_is_right(login: Login, script: str, controller: str) -> None:
    login.write(script, (WORLDS / script).read_text(encoding="utf-8"))
    words = ["--nodes", "2", "--ntasks", "4", "--overcommit", "--controller", controller]
    done = succeeded(login.launch(*words, "--follow", "--all", script))
    assert done.stdout.count("| reduced") == 4, done.stdout


def test_horovodrun_knows_mpich_4_and_names_the_interface(login: Login) -> None:
    login.sh("mkdir bin")
    login.sh(f"chmod +x {login.write('bin/mpirun', MPICH)}")
    command = "horovodrun --mpi -np 2 --network-interface lo true"
    path = f"PATH={login.folder}/bin:$PATH"
    done = login.sh(f"apptainer exec {login.image} sh -c '{path} {command}'")
    assert "-iface lo" in done
