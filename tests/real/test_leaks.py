"""What the host's environment, and an outer job's, may not change in the ranks' container."""

from __future__ import annotations

import json

from .conftest import IMAGE, UNPACKED, Login, succeeded

SEE = """
import getpass, json, os, pwd, subprocess, sys
names = ("TMPDIR", "BASH_ENV", "BASH_FUNC_which%%", "SLURM_EXPORT_ENV", "OUTPUT_DIR")
seen = {name: os.environ[name] for name in names if name in os.environ}
ask = "import pwd, os; print(pwd.getpwuid(os.getuid()).pw_name)"
seen["user"] = [getpass.getuser(), pwd.getpwuid(os.getuid()).pw_name]
seen["child"] = subprocess.check_output([sys.executable, "-c", ask], text=True).strip()
seen["bash"] = subprocess.run(["bash", "-c", "type -t which; :"], stderr=subprocess.STDOUT,
                              stdout=subprocess.PIPE, text=True).stdout
if os.environ["SLURM_PROCID"] == "0":
    with open(os.environ["OUTPUT_DIR"] + "/result.json", "w") as file:
        json.dump(seen, file)
"""
FLAGS = ("--no-gate", "--wait")


def test_the_hosts_shell_folders_and_users_do_not_leak_in(login: Login) -> None:
    """In a container with an empty passwd file, and a node's folder that it does not have."""
    login.write("see.py", SEE)
    login.sh("touch empty; mkdir tmp code; mv see.py code; echo 'echo the host' > host.sh")
    leaks = f"export TMPDIR={login.folder}/tmp BASH_ENV={login.folder}/host.sh; "
    leaks += 'which() { /usr/bin/which --tty-only "$@"; }; export -f which; '
    bind = f"--bind {login.folder}/empty:/etc/passwd --apptainer-arg=--contain"
    words = f"runner launch --image {IMAGE} {' '.join(FLAGS)} {bind} --nodes 2 code/see.py 2>&1"
    said = login.sh(leaks + words)
    seen = login.told("result")
    assert seen["user"] == ["ada", "ada"]
    assert seen["child"] == "ada"
    assert seen["bash"] == "file\n"
    assert not {"BASH_ENV", "BASH_FUNC_which%%"} & set(seen), said
    assert seen["TMPDIR"].startswith("/tmp/runner-")
    log = login.sh("cat runs/see-1/logs/job.log")
    assert log.count(f"TMPDIR={login.folder}/tmp is no folder that the ranks can write to") == 1


def test_ranks_start_whatever_the_batch_job_exports(login: Login) -> None:
    see = login.write("see.py", SEE)
    succeeded(login.launch(*FLAGS, "--nodes", "2", "--sbatch-arg=--export=NONE", see))
    assert "SLURM_EXPORT_ENV" not in login.told("result")


def test_a_folder_of_no_build_of_ours_has_the_runs_folder_and_its_own_programs(
    login: Login,
) -> None:
    login.sh(f"rsync -a --exclude=/.singularity.d/* --exclude=/opt/horovod {UNPACKED}/ box")
    see = login.write("see.py", SEE)
    succeeded(login.runner("launch", "--image", "box", *FLAGS, see))
    assert json.loads(login.sh("cat runs/see-1/result.json"))["OUTPUT_DIR"].endswith("/see-1")
    succeeded(login.runner("launch", "--image", "box", *FLAGS, "/usr/bin/env"))
    assert "/runs/env-1" in login.sh("grep OUTPUT_DIR= runs/env-1/logs/job.log")
