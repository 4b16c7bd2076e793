"""Many runs by one command, on a real Slurm and without one; the trainers here train nothing."""

from __future__ import annotations

import json
import re
import time
from typing import Any

from .conftest import Done, Login, ended, succeeded

# Tells what it was given; waits, fails or asks to be queued again as it is told.
TRAINER = """
import json, os, sys, time
told = {"argv": sys.argv[1:], "task": os.environ.get("SLURM_ARRAY_TASK_ID"), "began": time.time()}
print("began", flush=True)
end = time.time() + float(os.environ.get("SECONDS_TO_WAIT", "0"))
while time.time() < end:
    time.sleep(0.1)
    if os.path.exists(f"stop-{told['task']}"):
        sys.exit(91)
with open(os.environ["OUTPUT_DIR"] + "/result.json", "w") as file:
    json.dump({**told, "ended": time.time()}, file)
sys.exit(7 if sys.argv[-1].endswith("fail") else 0)
"""
HOSTILE = [
    *("a b", '"q"', "'s'", "$HOME", "`id`", ";touch here", "a,b", "back\\", "\\n", "-dash"),
    *("日本", "two\nlines", "%j %a", "\x1b[31m", "*", "{}", "#x", "fail"),
]


def prepared(login: Login) -> list[str]:
    """Make an environment that costs nothing to start; return the words of a launch in it."""
    login.sh("mkdir -p env/bin && ln -s /usr/bin/python3 env/bin/python")
    login.write("say.py", TRAINER)
    where = ["--runtime", "none", "--image", f"{login.folder}/env", "--controller", "gloo"]
    return ["launch", *where]


def facts(login: Login, word: str) -> dict[str, Any]:
    value: dict[str, Any] = {run["id"]: run for run in all_facts(login, word)}
    return value


def all_facts(login: Login, word: str) -> list[dict[str, Any]]:
    found = login.told("status", word)
    return found if isinstance(found, list) else [found]


def until(login: Login, test: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while login.run("bash", "-c", test).returncode:
        assert time.monotonic() < deadline, f"{test}\n{login.runner('list').stdout}"
        time.sleep(0.3)


def started(done: Done) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_sweep_of_hostile_values_is_one_array_with_a_folder_for_each(login: Login) -> None:
    values = ",".join(re.sub(r"([\\,])", r"\\\1", value) for value in HOSTILE)
    asked = ["--sweep", f"x={values}", "--wait", "say.py", "--", "--first"]
    done = login.runner(*prepared(login), *asked)
    assert done.returncode == 7, done.stderr
    assert f"submitted: {len(HOSTILE)} runs, say-1" in done.stderr
    assert f"{len(HOSTILE) - 1} completed, 1 failed" in done.stderr
    runs = login.told("result", "say-1")
    assert [run["result"]["argv"] for run in runs] == [["--first", f"--x={v}"] for v in HOSTILE]
    assert [run["varied"] for run in runs] == [{"x": value} for value in HOSTILE]
    number = runs[0]["id"].partition("_")[0]
    assert [run["id"] for run in runs] == [f"{number}_{task}" for task in range(len(HOSTILE))]
    shown = login.runner("status", number).stdout
    assert "\\x1b[31m" in shown
    assert "\x1b" not in shown
    assert len(shown.splitlines()) == len(HOSTILE) + 1
    assert "here" not in login.sh("ls")

    # One is a run as any other; its script runs by hand.
    last = f"{number}_{len(HOSTILE) - 1}"
    assert login.runner("wait", last).returncode == 7
    assert "began" in login.runner("logs", last).stdout
    assert "first to fail" in login.runner("status", f"say-1_{len(HOSTILE) - 1}").stdout
    login.sh("rm runs/say-1_5/result.json; sbatch --wait runs/say-1_5/job.sbatch")
    assert json.loads(login.sh("cat runs/say-1_5/result.json"))["argv"][1] == "--x=;touch here"
    why = login.runner("explain", number).stdout
    assert f"say-1: 1 of {len(HOSTILE)} runs did not end well" in why
    assert f"{last}:" in why
    ended(login.runner("logs", number), 2, f"{number} is {len(HOSTILE)} runs")


def test_arrays_wait_for_each_other_and_are_cancelled_one_by_one_or_all(login: Login) -> None:
    launch = prepared(login)
    slow = ["--env", "SECONDS_TO_WAIT=2", "--parsable"]
    first = started(login.runner(*launch, *slow, "--array", "1,4-5%1", "say.py"))
    after = ["--dependency", "afterok:say-1", "--job-name", "after", "--parsable"]
    then = started(login.runner(*launch, *after, "say.py"))
    assert f"--dependency=afterok:{first}" in login.sh("cat runs/after-1/job.sbatch")
    login.runner("cancel", f"{first}_5")
    ended(login.runner("wait", first), 86, "2 completed, 1 cancelled")
    kept = [json.loads(login.sh(f"cat runs/say-1_{task}/result.json")) for task in (1, 4)]
    assert [result["task"] for result in kept] == ["1", "4"]
    assert kept[0]["ended"] <= kept[1]["began"]  # %1: one at a time
    never = login.runner(*launch, "--dependency", "afterok:say-1_5", "say.py")
    ended(never, 80, "can never be met")
    login.runner("cancel", then)

    long = ["--env", "SECONDS_TO_WAIT=60", "-a0-3", "--parsable"]
    number = started(login.runner(*launch, *long, "say.py"))
    until(login, "grep -l began runs/say-2_*/logs/job.log | wc -l | grep -q 4")
    assert "4 of 4 runs cancelled" in login.runner("cancel", number).stderr
    assert login.runner("wait", "say-2").returncode == 86
    until(login, f'[ -z "$(squeue -h -j {number} -t R,CG,PD)" ]')


def test_one_task_is_queued_again_and_the_others_go_on(login: Login) -> None:
    """The last task of an array has the array's own job number."""
    more = ["--requeue", "--env", "SECONDS_TO_WAIT=90", "--array", "0-2", "--parsable", "say.py"]
    number = started(login.runner(*prepared(login), *more))
    until(login, "grep -l began runs/say-1_*/logs/job.log | wc -l | grep -q 3")
    login.sh("touch stop-2")
    until(login, f"squeue -h -r -j {number}_2 -t PD -o %r | grep -q BeginTime")
    found = facts(login, number)
    tasks = [found[f"{number}_{task}"] for task in range(3)]
    assert [task["state"] for task in tasks] == ["RUNNING", "RUNNING", "PENDING"]
    assert [task["restarts"] for task in tasks] == [0, 0, 1]
    assert "3 of 3 runs cancelled" in login.runner("cancel", number).stderr


def test_without_a_scheduler_they_run_one_after_the_other(login: Login) -> None:
    here = [*prepared(login), "--scheduler", "local", "--env", "SECONDS_TO_WAIT=1"]
    ended(login.runner(*here, "--sweep", "x=1,fail,3", "say.py"), 7)
    runs = login.told("result")
    for earlier, later in zip(runs, runs[1:]):
        assert earlier["result"]["ended"] <= later["result"]["began"]

    background = [*here[:-1], "SECONDS_TO_WAIT=30", "--json", "--array", "0-3", "say.py"]
    listed = json.loads(login.runner(*background).stdout)["runs"]
    ids = [run["id"] for run in listed]
    until(login, f"grep -q began {listed[0]['log']}")
    assert [run["state"] for run in all_facts(login, "say-2")] == ["RUNNING", *["PENDING"] * 3]
    login.runner("cancel", ids[1])
    login.runner("cancel", ids[0])
    until(login, f"grep -q began {listed[2]['log']}")  # the second was left out
    assert login.runner("cancel", "say-2").returncode == 0
    until(login, "! pgrep -u ada -f '[s]ay.py'")
    assert {run["state"] for run in all_facts(login, "say-2")} == {"CANCELLED"}
    assert "began" not in login.sh("cat runs/say-2_[13]/logs/job.log 2>&1 || true")


def test_a_sweep_of_a_script_that_knows_no_folder_of_its_run_is_warned_of(login: Login) -> None:
    here = [*prepared(login), "--sweep", "x=1,2", "--wait"]
    login.write("saves.py", "open('model.pt', 'a').write('x')")
    done = succeeded(login.runner(*here, "saves.py"))
    assert f"all runs work in {login.folder}, where saves.py may overwrite" in done.stderr
    assert 'os.environ["OUTPUT_DIR"]' in done.stderr
    assert "may overwrite" not in login.runner(*here, "say.py").stderr
