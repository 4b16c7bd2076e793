"""Another user's run: its record names a job and programs of his choice; its folder has code."""

from __future__ import annotations

import json

from tests.real.conftest import IMAGE, Login

from .conftest import Stranger


def trap(bob: Stranger, mark: str, id: str, **facts: object) -> str:
    """Make a run of bob's that looks whole; return its folder."""
    folder = bob.sh("mktemp -d /scratch/shared/run.XXXXXX").strip()
    record = {"form": 2, "id": id, "name": "x", "scheduler": "slurm", "log": "/dev/null"}
    write = f"""
        chmod 755 {folder}
        mkdir -p {folder}/code {folder}/tensorboard {folder}/private
        cat > {folder}/code/enter <<'END'
touch {mark}
END
        cat > {folder}/job.json <<'END'
{json.dumps({**record, "submitted": 1.0, **facts})}
END
        chmod -R a+rX {folder}"""
    bob.sh(write)
    return folder


def running(login: Login) -> str:
    """Start a job of ada's; return its number."""
    id = login.sh("sbatch --parsable --output /dev/null --wrap 'sleep 600'").strip()
    login.sh(f"until [ $(squeue --noheader --format=%T --job {id}) = RUNNING ]; do sleep 0.2; done")
    return id


def state(login: Login, id: str) -> str:
    return login.sh(f"squeue --noheader --format=%T --job {id}").strip()


def test_nothing_of_it_is_run_and_no_job_ended(login: Login, bob: Stranger) -> None:
    id, mark = running(login), f"{login.folder}/mark"
    folder = trap(bob, mark, id, image=IMAGE)
    for words in (
        ["exec", "--host", folder, "--", "true"],
        ["exec", folder, "--", "true"],
        ["cancel", folder],
        ["jupyter", folder],
        ["tensorboard", folder],
    ):
        done = login.runner(*words)
        assert done.returncode == 2, (words, done.stdout, done.stderr)
        assert "belongs to bob" in done.stderr
        assert "runner config trust" in done.stderr
    assert state(login, id) == "RUNNING"
    assert login.run("test", "-e", mark).returncode == 1
    login.sh(f"scancel {id}")


def test_its_image_is_not_taken(login: Login, bob: Stranger) -> None:
    """The environment that a record names would be the program that runs."""
    bob.sh("mkdir -p env/bin; printf '#!/bin/sh\\n' > env/bin/python; chmod -R a+rX .")
    folder = trap(bob, f"{login.folder}/mark", "1", image=f"{bob.folder}/env")
    bob.sh(f"rmdir {folder}/private")
    done = login.runner("tensorboard", folder, "--dry-run")
    assert done.returncode == 2, done.stdout
    assert "belongs to bob" in done.stderr


def test_a_job_number_is_never_an_option(login: Login, bob: Stranger) -> None:
    """`scancel --me` would end all jobs of ada's."""
    id = running(login)
    folder = trap(bob, f"{login.folder}/mark", "--me")
    for verb in ("status", "cancel", "logs", "wait"):
        done = login.runner(verb, folder)
        assert done.returncode not in (0, -1), done.stdout
        assert "is no job's number" in done.stderr
    assert state(login, id) == "RUNNING"
    login.sh(f"scancel {id}")
