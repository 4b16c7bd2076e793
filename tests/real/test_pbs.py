"""PBS's scripts and Debian's slurm-wlm-torque: its qsub and qdel are real, and Slurm runs the jobs.

It reads `-l select`, `-l walltime` and the other lines of a script; `-l place` it lets pass. It has
no `qstat -x -F json` and sets no PBS_NODEFILE: the list of nodes that a job finds is made by its
own generate_pbs_nodefile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from .conftest import Done, Login, ended, on_cluster, succeeded
from .places import BARE

pytestmark = [pytest.mark.unpacked, pytest.mark.usefixtures("node_file")]
COMMANDS = "/opt/torque"
PROFILE = """
if [ -n "$SLURM_JOB_ID" ]; then
    export PBS_JOBID=$SLURM_JOB_ID PBS_NODEFILE=$(/opt/torque/generate_pbs_nodefile)
fi
"""
TRAINER = f"""{BARE}hvd.init()
print("rank", hvd.rank(), "of", hvd.size(), os.environ["PBS_JOBID"])
hvd.shutdown()
"""
REQUEST = ("--nodes", "2", "--ntasks-per-node", "1", "--cpus-per-task", "1", "--mem", "1G")
WORDS = ("--scheduler", "pbs", "--launcher", "mpirun", "--time", "10", *REQUEST)


@pytest.fixture
def node_file() -> Iterator[None]:
    """In a job's login shell, as a PBS has it."""
    path = "/etc/profile.d/pbs.sh"
    for node in ("n1", "n2"):
        script = f"cat > {path} <<'END'\n{PROFILE}END"
        succeeded(on_cluster(["bash", "-c", script], node=node, user="root"))
    yield
    for node in ("n1", "n2"):
        on_cluster(["rm", path], node=node, user="root")


def pbs(login: Login, *words: str) -> Done:
    path = f"{COMMANDS}:/opt/runner/bin:/usr/bin:/bin"
    return login.runner(*words, env={"PATH": path})


def launch(login: Login, *words: str) -> Done:
    return pbs(login, "launch", "--image", login.image, *WORDS, *words)


def test_qsub_takes_the_script_and_the_ranks_are_one_world(login: Login) -> None:
    login.write("hello.py", TRAINER)
    printed = succeeded(launch(login, "--dry-run", "hello.py")).stdout
    assert "#PBS -l select=2:ncpus=1:mpiprocs=1:mem=1gb\n#PBS -l place=scatter\n" in printed
    done = succeeded(launch(login, "--wait", "hello.py"))
    (id,) = re.findall(r"job (\d+) submitted", done.stderr)
    log = login.sh("cat runs/*/logs/job.log")
    assert "runner: one world of 2 ranks (Horovod" in log
    assert f"rank 1 of 2 {id}" in log
    job = dict(re.findall(r"(\w+)=(\S+)", login.sh(f"scontrol show job {id}")))
    assert (job["NodeList"], job["NumTasks"], job["MinMemoryNode"]) == ("n[1-2]", "2", "1G")
    assert (job["TimeLimit"], job["JobName"]) == ("00:10:00", "hello")
    status = pbs(login, "status", id)
    assert "PBS's answer was not understood" in status.stderr
    assert "qstat [-f]" in status.stderr  # its usage: it has neither -x nor -F
    assert "completed" in succeeded(status).stdout


def test_qdel_ends_it_and_what_qsub_refuses_is_told(login: Login) -> None:
    trainer = login.write("wait.py", "import time\ntime.sleep(600)\n")
    (id,) = re.findall(r"job (\d+) submitted", succeeded(launch(login, trainer)).stderr)
    login.sh(f"until squeue -h -j {id} -o %N | grep -qF 'n[1-2]'; do sleep 0.2; done")
    succeeded(pbs(login, "cancel", id))
    login.sh(f"while squeue -h -j {id} | grep -q .; do sleep 0.2; done")  # it kills the job
    assert '"CANCELLED"' in login.sh("cat runs/*/job.json")
    refused = launch(login, "--partition", "nosuch", trainer)
    ended(refused, 80, "PBS refused the job; nothing was submitted", "Invalid partition name")
