"""An image that is another file than the one whose digest was recorded."""

from __future__ import annotations

import json

import pytest

from tests.real.test_proof import NOT_VERIFIED, Place, place, small  # noqa: F401 (fixtures)

from .conftest import Stranger, start

# What a build leaves beside an image.
RECORD = """
import hashlib, json, os, sys
image = sys.argv[1]
status, digest = os.stat(image), hashlib.sha256(open(image, "rb").read()).hexdigest()
record = {"key": "k", "digest": "sha256:" + digest}
record.update(size=status.st_size, modified=status.st_mtime_ns)
with open("." + image + ".json", "w") as file:
    json.dump(record, file)
print("sha256:" + digest)
"""


@pytest.fixture
def recorded(place: Place) -> str:  # noqa: F811
    """The digest that is recorded of a.sif."""
    place.login.write("record.py", RECORD)
    place.login.write("short.py", "print('TRAINED', flush=True)")
    return place.sh("python3 record.py a.sif").strip()


def test_a_flipped_byte_with_the_time_set_back_is_refused(place: Place, recorded: str) -> None:  # noqa: F811
    words = ("launch", "--image", "a.sif", "--scheduler", "local", "short.py")
    done = place.runner(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "TRAINED" in done.stdout
    assert "whose digest is not known" in done.stderr, "the file is new here: it is read"
    place.alter(1_000_000)
    done = place.runner(*words)
    assert done.returncode == NOT_VERIFIED, done.stdout + done.stderr
    assert "a.sif is not the file that its build recorded" in done.stderr
    assert f"recorded {recorded}" in done.stderr
    assert "try: rm " in done.stderr
    assert len(place.login.runs()) == 1
    code, checks = place.verify()
    assert (code, checks["digest"]["state"]) == (NOT_VERIFIED, "fail")
    done = place.runner("launch", "--dry-run", *words[1:])
    assert done.returncode == 0, done.stderr
    assert "whose digest" not in done.stderr, "a dry run reads no image"
    place.alter(1_000_000)  # back
    done = place.runner(*words)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_image_that_another_user_replaces_while_the_job_waits(
    place: Place,  # noqa: F811
    recorded: str,
    bob: Stranger,
) -> None:
    """Its folder is writable for all, as a careless project's is."""
    login, jobs = place.login, []
    image = f"{login.folder}/open/a.sif"
    login.sh("chmod 755 .; mkdir open; chmod 777 open; mv a.sif .a.sif.json open")
    for more in ((), ("--stage-image", "node-local", "--nodes", "2")):
        words = ("--sbatch-arg=--hold", *more, "short.py")
        jobs.append(start(login, *words, image=image))
    bob.sh(f"cp {image} evil.sif; echo >> evil.sif; mv -f evil.sif {image}")
    for job in jobs:
        login.sh(f"scontrol release {job.id}")
    for job in jobs:
        assert job.end() == NOT_VERIFIED, job.log
        assert "is no longer the file that was launched" in job.log
        assert "TRAINED" not in job.log
        cause = json.loads(login.runner("explain", "--json", job.id).stdout)
        assert (cause["name"], cause["certainty"]) == ("image-changed", "certain"), cause
    done = login.runner("launch", "--image", image, "short.py")
    assert done.returncode == NOT_VERIFIED, done.stdout + done.stderr


def test_an_image_that_was_only_copied_back_runs(place: Place, recorded: str) -> None:  # noqa: F811
    """Its stamp is another, its content is not: the job reads it."""
    login = place.login
    job = start(login, "--sbatch-arg=--hold", "short.py", image=f"{login.folder}/a.sif")
    login.sh("cp a.sif b.sif; mv b.sif a.sif")
    login.sh(f"scontrol release {job.id}")
    assert job.end() == 0, job.log
    assert "TRAINED" in job.log
