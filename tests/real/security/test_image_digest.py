"""An image that is another file than the one whose digest was recorded."""

from __future__ import annotations

import pytest

from tests.real.test_proof import NOT_VERIFIED, Place, place, small  # noqa: F401 (fixtures)

from ..conftest import ended, succeeded
from .conftest import Stranger, start


@pytest.fixture
def recorded(place: Place) -> str:  # noqa: F811
    """The digest of a.sif, which `build` has recorded."""
    place.login.write("short.py", "print('TRAINED', flush=True)")
    place.login.write("own.def", f"Bootstrap: localimage\nFrom: {place.login.folder}/base.sif")
    place.sh("mv a.sif base.sif")
    succeeded(place.runner("build", "own.def", "--output", "a.sif"))
    return "sha256:" + place.sh("sha256sum a.sif").split()[0]


def test_a_flipped_byte_with_the_time_set_back_is_refused(place: Place, recorded: str) -> None:  # noqa: F811
    words = ("launch", "--image", "a.sif", "--scheduler", "local", "short.py")
    done = succeeded(place.runner(*words))
    assert "TRAINED" in done.stdout
    assert "whose digest" not in done.stderr, "what was just built is not read again"
    place.alter(1_000_000)
    done = place.runner(*words)
    assert done.returncode == NOT_VERIFIED, done.stdout + done.stderr
    assert "a.sif is not the file that its build recorded" in done.stderr
    assert f"recorded {recorded}" in done.stderr
    assert "try: rm " in done.stderr
    assert len(place.login.runs()) == 1
    code, checks = place.verify()
    assert (code, checks["digest"]["state"]) == (NOT_VERIFIED, "fail")
    done = succeeded(place.runner("launch", "--dry-run", *words[1:]))
    assert "whose digest" not in done.stderr, "a dry run reads no image"
    place.alter(1_000_000)  # back
    succeeded(place.runner(*words))


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
        cause = login.why(job.id)
        assert (cause["id"], cause["certainty"]) == ("image-changed", "certain"), cause
    ended(login.runner("launch", "--image", image, "short.py"), NOT_VERIFIED)


def test_an_image_that_was_only_copied_back_runs(place: Place, recorded: str) -> None:  # noqa: F811
    """Its stamp is another, its content is not: the job reads it."""
    login = place.login
    job = start(login, "--sbatch-arg=--hold", "short.py", image=f"{login.folder}/a.sif")
    login.sh("cp a.sif b.sif; mv b.sif a.sif")
    login.sh(f"scontrol release {job.id}")
    assert job.end() == 0, job.log
    assert "TRAINED" in job.log
