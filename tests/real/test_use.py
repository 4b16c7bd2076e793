"""What a job used of its nodes, against the trainer's own count; profilers; several starts."""

from __future__ import annotations

import json
import re

import pytest

from .conftest import Login, ended, succeeded
from .places import BARE

pytestmark = pytest.mark.unpacked

BURN = f"""{BARE}
import resource, sys

hvd.init()
block = bytearray(200 << 20)
block[::4096] = b"x" * len(block[::4096])
before = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
while sum(resource.getrusage(resource.RUSAGE_SELF)[:2]) < before + float(os.environ["BURNS"]):
    pass
if hvd.rank() == 0:
    with open(os.path.join(os.environ["OUTPUT_DIR"], "result.json"), "w") as file:
        json.dump(dict(accuracy=0.5), file)
hvd.shutdown()
used = resource.getrusage(resource.RUSAGE_SELF)
print("used", sum(used[:2]), used.ru_maxrss << 10, sys.argv[1:])
"""
# A shell script stands for a profiler of the host's, in a folder that no container shows by itself.
TOOL = """#!/bin/sh
output=$2; shift 3
echo "$@" > "$output.words"
exec "$@"
"""
STEPS = """
import json, os, time
from datetime import datetime, timezone

out = os.environ["OUTPUT_DIR"]
saved = os.path.join(out, "saved")
step = int(open(saved).read()) if os.path.exists(saved) else 0

def line(event):
    when = datetime.now(timezone.utc).isoformat()
    with open(os.path.join(out, "metrics.jsonl"), "a") as file:
        file.write(json.dumps({"event": event, "step": step, "time": when}) + "\\n")

if step:
    line("resume")
while step < 40:
    time.sleep(0.25)
    step += 1
    line("step")
    if step == 10:
        open(saved, "w").write("10")
"""


def test_a_jobs_use_is_what_its_ranks_count_themselves(login: Login) -> None:
    trainer = login.write("burn.py", BURN)
    burns = ("--env", "BURNS=2")
    done = succeeded(
        login.launch("--nodes", "2", "--mem", "2G", *burns, "--follow", "--all", trainer)
    )
    pattern = r"^(\d)@(n\d) \| used ([\d.]+) (\d+)"
    own = {host: (cpu, peak) for _, host, cpu, peak in re.findall(pattern, done.stdout, re.M)}
    assert set(own) == {"n1", "n2"}
    result = login.told("result")
    assert result["accuracy"] == 0.5
    assert result["use"]["sampler_share"] < 0.005
    for node in result["use"]["nodes"]:
        cpu, peak = map(float, own[node["host"]])
        # It cannot count its own end.
        assert cpu - 0.1 < node["cpu_seconds"] < cpu + 1.5
        assert node["memory_peak_bytes"] == pytest.approx(peak, rel=0.1)
        assert node["memory_peak_bytes"] > 200 << 20
        assert (node["memory_limit_bytes"], node["memory_limit_of"]) == (2 << 30, "slurm")
        assert node["gpus"] is None
        row = rf"runner:   {node['host']} +1 .* MB of 2\.1 GB .* not measured$"
        assert re.search(row, done.stdout, re.M), done.stdout
        status = login.runner("status").stdout
        assert re.search(rf"^{node['host']} +1 .* not measured$", status, re.M)
    assert "use." not in login.runner("result").stdout

    login.launch("--nodes", "1", "--env", "BURNS=0", "--wait", trainer)
    compared = login.told("compare", "burn-1", "burn-2")
    assert all(run["used"]["memory_peak_gb_per_node"] > 0.2 for run in compared["runs"])
    assert "cpus_used_per_node" in login.runner("compare", "burn-1", "burn-2").stdout


def test_memory_near_its_limit_is_found_with_the_command_that_asks_for_more(login: Login) -> None:
    trainer = login.write("hold.py", "block = bytearray(380 << 20)\nblock[::4096] = bytes(97280)\n")
    done = succeeded(login.launch("--mem", "400M", "--follow", trainer))
    assert "0.4 GiB of 0.4 GiB used, near --mem; try: --mem 1G" in done.stdout
    status = login.runner("status").stdout
    assert re.search(r"try: .*runner launch --mem 1G .*hold\.py", status)


def test_a_profiler_of_the_image_and_one_of_the_host(login: Login) -> None:
    trainer = login.write("burn.py", BURN)
    words = ["a b", "$(touch y)", "'"]
    command = "py-spy record --duration 60 -o {output}.svg --"
    launch = ["--nodes", "2", "--wait", "--env", "BURNS=0.5"]
    launch += ["--profile-with", command, "--profile-ranks", "1"]
    done = succeeded(login.launch(*launch, trainer, "--", *words))
    assert f"profile: {login.folder}/runs/burn-1/profile (by py-spy)" in done.stderr
    assert login.sh("ls runs/burn-1/profile") == "rank-1.svg\n"
    assert "<svg" in login.sh("head -c 1000 runs/burn-1/profile/rank-1.svg")
    assert f"{words!r}" in login.sh("grep '^1@' runs/burn-1/logs/job.log")

    folder = login.sh("mktemp -d /scratch/ada/tool.XXXXXX").strip()
    try:
        login.sh(f"mkdir {folder}/bin; cat > {folder}/bin/tool <<'THE END'\n{TOOL}THE END")
        login.sh(f"chmod +x {folder}/bin/tool")
        launch = ["--nodes", "2", "--wait", "--env", "BURNS=0", "--profile-ranks", "all"]
        launch += ["--profile-with", f"{folder}/bin/tool -o {{output}} --"]
        succeeded(login.launch(*launch, trainer))
    finally:
        login.sh(f"rm -r {folder}")
    found = login.sh("cat runs/burn-2/profile/rank-[01].words").splitlines()
    assert len(found) == 2
    assert all(line.endswith(f" {trainer}") for line in found)


def test_a_profiler_that_is_not_there(login: Login) -> None:
    trainer = login.write("burn.py", BURN)
    launch = ["--nodes", "2", "--wait", "--env", "BURNS=0"]
    launch += ["--profile-with", "nsys profile -o {output}"]
    done = login.launch(*launch, trainer)
    ended(done, 127, "cause:         the profiler nsys is not in the image on n1")
    login.sh("python3 -m venv --without-pip env")
    done = login.runner("launch", "--image", "env", "--runtime", "none", *launch, trainer)
    ended(done, 80, "--profile-with: there is no nsys on this machine")


def test_a_run_that_came_back_counts_all_its_starts(login: Login) -> None:
    trainer = login.write("steps.py", STEPS)
    done = login.launch("--requeue", "--no-gate", "--parsable", trainer)
    id = done.stdout.strip()
    login.sh("for i in $(seq 300); do [ $(wc -l < runs/steps-1/metrics.jsonl) -gt 20 ] && exit; "
             "sleep 0.2; done; exit 9")  # fmt: skip
    login.sh(f"scontrol requeue {id}")
    assert login.runner("wait", id).returncode == 0
    records = [json.loads(line) for line in login.sh("cat runs/steps-1/starts.jsonl").splitlines()]
    began, ended_at = (
        [record[key] for record in records if key in record] for key in ("began", "ended")
    )
    ran = sum(end - begin for begin, end in zip(began, ended_at))
    stood = login.told("status", id)
    assert (stood["restarts"], stood["nodes"], len(began)) == (1, "n1", 2)
    assert stood["elapsed"] == pytest.approx(ran, abs=2)
