"""Another user's run: its record names a job and programs of his choice; its folder has code."""

from __future__ import annotations

import json
import shlex

from runners.core.command_line import CommandLine, as_json
from tests.real.conftest import IMAGE, Login, on_cluster

from ..conftest import ended, succeeded
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
        ["tensorboard", folder],
    ):
        ended(login.runner(*words), 2, "belongs to bob", "runner config trust")
    for server in ("jupyter", "tensorboard"):
        folder = trap(bob, mark, id, typed=as_json(CommandLine(server)))
        ended(login.runner(server, folder), 2, "belongs to bob", "runner config trust")
    assert state(login, id) == "RUNNING"
    assert login.run("test", "-e", mark).returncode == 1
    login.sh(f"scancel {id}")


def test_to_look_at_it_runs_nothing_of_it(login: Login, bob: Stranger) -> None:
    """Who lags in a run that stalls is asked by a program of that run."""
    id, mark = running(login), f"{login.folder}/mark"
    folder = trap(bob, mark, id)
    program = f"open({mark!r}, 'w').close()"
    step = '{"step": 5, "steps": 9, "time": "2026-01-01T00:00:00+00:00"}'
    bob.sh(f"""mkdir -p {folder}/code/injob
        echo {shlex.quote(program)} > {folder}/code/injob/__main__.py
        echo {shlex.quote(step)} > {folder}/metrics.jsonl; chmod -R a+rX {folder}""")
    done = succeeded(login.runner("status", folder))
    assert "no step for" in done.stdout, "it does not count as stalled, so nothing was tried"
    login.runner("explain", folder)
    assert login.run("test", "-e", mark).returncode == 1
    login.sh(f"scancel {id}")


def test_its_image_is_not_taken(login: Login, bob: Stranger) -> None:
    """The environment that a record names would be the program that runs."""
    bob.sh("mkdir -p env/bin; printf '#!/bin/sh\\n' > env/bin/python; chmod -R a+rX .")
    folder = trap(bob, f"{login.folder}/mark", "1", image=f"{bob.folder}/env")
    ended(login.runner("tensorboard", folder, "--dry-run"), 2, "belongs to bob")


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


def test_a_run_is_not_made_where_another_user_could_replace_it(login: Login, bob: Stranger) -> None:
    """Its code is what the ranks run, later."""
    trainer = login.write("trainer.py", "print('RAN')")
    bob.sh("mkdir -m 1777 /scratch/shared/trap; mkdir -m 1777 /scratch/shared/trap2")
    bob.sh("mkdir -m 777 /scratch/shared/trap2/runs")
    for folder in ("/scratch/shared/trap", "/scratch/shared/trap2"):
        ended(Login(folder).launch(trainer), 2, "other users could", "runner config trust")
    assert bob.sh("ls /scratch/shared/trap /scratch/shared/trap2/runs").split() == [
        "/scratch/shared/trap:",
        "/scratch/shared/trap2/runs:",
    ]


def test_a_project_folder_of_somebody_else_is_good_enough(login: Login) -> None:
    """Its owner was given it by the site: nobody else could have made it there."""
    script = 'd=$(mktemp -d /scratch/team.XXXXXX); chown bob:ada "$d"; chmod 2770 "$d"; echo "$d"'
    folder = on_cluster(["bash", "-ec", script], user="root").stdout.strip()
    try:
        trainer = login.write("trainer.py", "print('RAN')")
        succeeded(Login(folder).launch("--wait", trainer))
    finally:
        on_cluster(["rm", "-rf", folder], user="root")
