"""Proof of images: signatures, digests, and what is inside.

A small image with Python and nothing of ours stands for those of others.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests import documents

from .conftest import IMAGE, Done, Login, ended, on_cluster, succeeded

REFUSED, NOT_VERIFIED = 80, 81
# The tree's own shell and Python. Not compressed, for speed; of Python only what the shim needs.
MAKE_SMALL = r"""
folder=$(mktemp -d /scratch/ada/test.XXXXXX)
cd "$folder"
mkdir -p root/{etc,proc,sys,dev,tmp,root,home,var,usr/lib}
put() { for file in "$@"; do mkdir -p "root${file%/*}"; cp -L "$file" "root$file"; done; }
programs="/bin/sh /bin/sleep /usr/bin/getconf /usr/bin/python3"
put $programs $(ldd $programs | grep -o '/lib[^ ]*' | sort -u)
python=$(/usr/bin/python3 -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
rsync -a --exclude __pycache__ --exclude 'config-*' "/usr/lib/$python" root/usr/lib/
apptainer build --mksquashfs-args "-noI -noD -noF -noX" small.sif root > build.log 2>&1
rm -rf root
echo "$folder"
"""
# A driver's library in the folder of an image, as the loader lists it: under its soname.
GIVE_DRIVER = r"""
apptainer build --sandbox folder a.sif > build.log 2>&1
libraries=folder/lib/x86_64-linux-gnu
mkdir -p folder/sbin folder/usr/bin
cp /sbin/ldconfig folder/sbin/
cp /bin/grep folder/usr/bin/
cp -L $(ldd /bin/grep | grep -o '/lib/[^ ]*') $libraries/
sed 's/libsystemd\.so\.0/libcuda.so.1\x00\x00\x00/' /usr/lib/x86_64-linux-gnu/libsystemd.so.0 \
    > $libraries/libcuda.so.1
apptainer exec --writable folder /sbin/ldconfig /lib/x86_64-linux-gnu
"""
# Another version than the cluster's, which cannot be had: only the plan reads it.
NEWER = """#!/bin/sh
[ "$1" != --version ] || { echo "apptainer version 1.5.1"; exit; }
exec /usr/bin/apptainer "$@"
"""
# Made for this test with gpg --faked-system-time; it expired on 2 January 2025.
EXPIRED = """\
-----BEGIN PGP PRIVATE KEY BLOCK-----

lFgEZ3SFgBYJKwYBBAHaRw8BAQdAPD8CVmRZCfTMY3E1AzDfTL3+UeZPltUusWrC
qDz5RyQAAP9Aan9vUTZtCdYyoTGVYRpTD8TYeJuhw8sP3Apd+SNjWg7ptCFFeHBp
cmVkIEtleSA8ZXhwaXJlZEBleGFtcGxlLm9yZz6IlgQTFggAPhYhBD+BjqGF5J2/
RYxKp3TPBedviTpmBQJndIWAAhsDBQkAAVGABQsJCAcCBhUKCQgLAgQWAgMBAh4B
AheAAAoJEHTPBedviTpmZa8A/jTUD4sQ7GJgbgX6uIXtdw6V+r/Q6pI5rBnvyj7z
kouCAQCgjenIYXcutyOm1/B0fz2aGdO1dujsjJS8YWfnSQ4WAA==
=rgjF
-----END PGP PRIVATE KEY BLOCK-----
"""
# Replace byte N of a file, from its end when negative, and set the file's time back.
ALTER = """\
import os, sys
name, place = sys.argv[1], int(sys.argv[2])
times = os.stat(name)
with open(name, "r+b") as file:
    file.seek(place, 0 if place >= 0 else 2)
    byte = file.read(1)[0]
    file.seek(-1, 1)
    file.write(bytes([byte ^ 255]))
os.utime(name, ns=(times.st_atime_ns, times.st_mtime_ns))
"""


@dataclass(frozen=True)
class Place:
    """A folder with `a.sif`, a keyring of its own, and no home of anybody."""

    login: Login

    @property
    def env(self) -> dict[str, str]:
        """Variables that lead the runtime and runner here."""
        folder = self.login.folder
        return {"APPTAINER_KEYSDIR": f"{folder}/keys", "XDG_CACHE_HOME": f"{folder}/cache"}

    def runner(self, *words: str, **env: str) -> Done:
        """Run `runner` here."""
        return self.login.runner(*words, env={**self.env, **env})

    def sh(self, script: str) -> str:
        """Run a shell script that must succeed."""
        return succeeded(self.login.run("bash", "-ec", script, env=self.env)).stdout

    def new_key(self, name: str) -> str:
        """Make a key without a passphrase; return its fingerprint."""
        self.sh(
            f"mkdir -p -m 700 keys; apptainer key newpair --name {name} --email {name}@example.org "
            "--comment test --password '' --bit-length 2048 --push=false"
        )
        return self.sh("apptainer key list --secret").split("Fingerprint:")[-1].split()[0]

    def sign(self) -> None:
        """Sign a.sif with the first key."""
        self.sh("apptainer sign --keyidx 0 a.sif")

    def alter(self, place: int) -> None:
        """Change one byte of a.sif, and let its time be as before."""
        self.login.write("alter.py", ALTER)
        self.sh(f"python3 alter.py a.sif {place}")

    def verify(self, *words: str) -> tuple[int, dict[str, dict[str, str]]]:
        """Verify a.sif without running it; return the exit code and the lines by name."""
        done = self.runner("verify", "--quick", "--json", "a.sif", *words)
        assert "Traceback" not in done.stderr
        checks = json.loads(done.stdout)["checks"]
        return done.returncode, {check["name"]: check for check in checks}

    def signature(self) -> tuple[int, str, str]:
        """Return the exit code of verify, the state of the signature, and what it says."""
        code, checks = self.verify()
        found = checks["signature"]
        return code, found["state"], found["evidence"] + found["remedy"]


@pytest.fixture(scope="module")
def small() -> Iterator[str]:
    """The path of a small image without labels."""
    folder = succeeded(on_cluster(["bash", "-ec", MAKE_SMALL])).stdout.strip()
    yield f"{folder}/small.sif"
    on_cluster(["rm", "-rf", folder])


@pytest.fixture
def place(login: Login, small: str) -> Place:
    """A folder with a copy of the small image."""
    login.sh(f"cp {small} a.sif")
    return Place(login)


def test_signed_and_then_altered(place: Place) -> None:
    key = place.new_key("ada")
    assert place.signature()[:2] == (0, "not signed")
    place.sign()
    code, state, words = place.signature()
    assert (code, state) == (0, "pass")
    assert key in words
    assert "ada (test) <ada@example.org>" in words
    place.alter(1_000_000)
    code, state, words = place.signature()
    assert (code, state) == (NOT_VERIFIED, "fail")
    assert "integrity" in words
    place.alter(1_000_000)  # back
    assert place.signature()[:2] == (0, "pass")
    place.alter(-300)
    assert place.signature()[:2] == (NOT_VERIFIED, "fail")


def test_a_signature_by_somebody_else(place: Place) -> None:
    place.new_key("eve")
    place.sign()
    place.sh("mv keys eves")
    code, state, words = place.signature()
    assert (code, state) == (NOT_VERIFIED, "fail")
    assert "unknown entity" in words


def test_a_key_that_has_expired(place: Place) -> None:
    place.login.write("expired.asc", EXPIRED)
    place.sh("mkdir -m 700 keys; apptainer key import expired.asc")
    place.sign()
    code, state, words = place.signature()
    assert (code, state) == (NOT_VERIFIED, "fail")
    assert "expired" in words


def test_a_part_that_no_signature_covers(place: Place) -> None:
    place.new_key("ada")
    place.sign()
    flags = "--datatype 4 --parttype 4 --partfs 2 --partarch 2"
    place.sh(f"head -c 100000 /dev/zero > overlay; apptainer sif add {flags} a.sif overlay")
    code, state, words = place.signature()
    assert (code, state) == (NOT_VERIFIED, "fail")
    assert "not associated with object group" in words


def test_an_image_that_is_cut_or_for_another_machine(place: Place) -> None:
    digest = "sha256:" + place.sh("sha256sum a.sif").split()[0]
    assert place.verify("--digest", digest)[1]["digest"]["state"] == "pass"
    code, checks = place.verify("--digest", "sha256:" + "0" * 64)
    assert (code, checks["digest"]["state"]) == (NOT_VERIFIED, "fail")
    arm = "d = open('a.sif', 'rb').read(); at = d.rindex(b'02\\0', 0, 32000)"
    arm += "; open('a.sif', 'wb').write(d[:at] + b'04' + d[at + 2:])"
    place.sh(f"python3 -c {shlex.quote(arm)}")
    code, checks = place.verify()
    assert (code, checks["architecture"]["state"]) == (NOT_VERIFIED, "fail")
    assert "it is for arm64" in checks["architecture"]["evidence"]
    place.login.write("train.py", "")
    done = place.runner("launch", "--image", "a.sif", "--scheduler", "local", "train.py")
    assert (done.returncode, place.login.runs()) == (REFUSED, [])
    assert "a.sif is for arm64" in done.stderr
    place.sh("truncate -s -100000 a.sif")
    code, checks = place.verify()
    assert (code, list(checks)) == (NOT_VERIFIED, ["whole", "contents"])
    assert "truncated" in checks["whole"]["evidence"]


def facts(place: Place, image: str, **env: str) -> dict[str, dict[str, Any]]:
    """Return the facts that `runner inspect` has of an image."""
    done = succeeded(place.runner("inspect", "--json", image, **env))
    found: dict[str, dict[str, Any]] = json.loads(done.stdout)["facts"]
    return found


def test_an_image_of_others_is_looked_into_once(place: Place) -> None:
    found = facts(place, "a.sif")
    version = place.sh("/usr/bin/python3 -c 'import platform; print(platform.python_version())'")
    assert found["python.version"] == {"value": version.strip(), "source": "probed"}
    assert found["horovod.version"] == {"value": "none", "source": "probed"}
    assert found["mpi.version"] == {"value": "none", "source": "probed"}
    without_runtime = {"PATH": "/opt/runner/bin"}
    assert facts(place, "a.sif", **without_runtime) == found
    place.sh("apptainer build --sandbox folder a.sif")
    folder = facts(place, "folder")
    assert folder["glibc.version"] == found["glibc.version"]
    assert folder["format"]["value"] == "folder"


def test_the_texts_of_an_image(place: Place) -> None:
    """spython and the runtime read those of a SIF file; those of a sandbox are read here."""
    text = "%help\n  What it is\n%environment\n  export MINE=1\n"
    place.login.write("its.def", f"Bootstrap: localimage\nFrom: a.sif\n{text}")
    place.sh("apptainer build its.sif its.def; apptainer build --sandbox its its.sif")
    shown = json.loads(succeeded(place.runner("inspect", "--json", "its.sif")).stdout)
    box = json.loads(succeeded(place.runner("inspect", "--json", "its")).stdout)
    for name in ("environment", "help", "runscript", "test"):
        assert _stripped(box[name]) == _stripped(shown[name])
    assert "What it is" in shown["help"]
    assert "export MINE=1" in shown["environment"]["/.singularity.d/env/90-environment.sh"]
    assert "From: a.sif" in shown["definition"]
    place.sh("ln -sf /etc/passwd its/.singularity.d/runscript")
    for_people = succeeded(place.runner("inspect", "its"))
    assert "root:x:0" not in for_people.stdout
    assert ".singularity.d/runscript: not shown" in for_people.stderr
    alone = succeeded(place.runner("inspect", "its.sif", PATH="/opt/runner/bin"))
    assert "there is no container runtime on this machine" in alone.stderr
    assert "What it is" not in alone.stdout
    place.sh("head -c 20000 its.sif > cut.sif")
    ended(
        place.runner("inspect", "cut.sif"),
        REFUSED,
        "cut.sif cannot be used as an image",
        "truncated",
    )
    ours = json.loads(succeeded(place.runner("inspect", "--json", IMAGE)).stdout)
    assert "Bootstrap:" in ours["definition"]


def _stripped(value: Any) -> Any:
    texts = value.items() if isinstance(value, dict) else [("", value or "")]
    return {name: text.strip() for name, text in texts}


def test_an_image_of_others_without_horovod(place: Place) -> None:
    done = ended(place.runner("verify", "a.sif"), NOT_VERIFIED)
    assert "fail         check-build" in done.stdout
    assert "there is no Horovod in it" in done.stdout


def test_a_driver_library_of_an_image_and_the_apptainer_that_prefers_it(place: Place) -> None:
    place.sh(GIVE_DRIVER)
    library = "/lib/x86_64-linux-gnu/libcuda.so.1"
    known = facts(place, "folder")["cuda.driver.library"]
    assert known == {"value": library, "source": "probed"}
    place.login.write("train.py", "print('STARTED')")
    place.sh("mkdir new")
    place.sh("chmod +x " + place.login.write("new/apptainer", NEWER))
    words = ("plan", "--image", "folder", "-p", "gpu", "--gpus-per-node", "A100:2", "train.py")
    now = place.runner(*words)
    assert re.search(r"searched first +the host's +Apptainer 1\.[234]\.", now.stdout), now.stdout
    assert "hides the driver" not in now.stdout
    # The same look into the image tells that NCCL reaches no InfiniBand card from within it.
    assert "libibverbs" not in now.stdout
    assert "folder has no libibverbs" in place.runner(*words, "--nodes", "2").stdout
    folder = place.sh("pwd").strip()
    newer = place.runner(*words, PATH=f"{folder}/new:/opt/runner/bin:/usr/bin:/bin")
    assert "the image's" in newer.stdout, newer.stdout
    assert "Apptainer 1.5.1" in newer.stdout
    assert f"{library} of folder hides the driver's library" in newer.stdout
    assert "--env PREPEND_LD_LIBRARY_PATH=/.singularity.d/libs" in newer.stdout


def test_an_image_altered_while_the_job_waits(place: Place) -> None:
    digest = place.sh("sha256sum a.sif").split()[0]
    keys = f'name = "a.sif"\nsource = "a"\ndigest = "sha256:{digest}"\nsize = 1\npulled = "x"'
    place.login.write("images.lock", f"[[image]]\n{keys}")
    place.login.write("train.py", "print('trained')")
    held = ["--sbatch-arg=--hold", "--parsable", "--image", "a.sif", "train.py"]
    jobs = []
    for more in ([], ["--stage-image", "node-local", "--nodes", "2"]):
        done = succeeded(place.runner("launch", *more, *held))
        jobs.append(done.stdout.strip())
    place.alter(-5000)
    place.sh(f"scontrol release {','.join(jobs)}")
    for job, who in zip(jobs, ("runner: ", "runner: image on n2: it ")):
        assert place.runner("wait", job).returncode == NOT_VERIFIED
        said = place.runner("logs", "--all", job).stdout
        assert re.search(rf"{who}.*is no longer the file that was launched", said), said
        why = place.login.why(job, env=place.env)
        assert (why["id"], why["certainty"]) == ("image-changed", "certain"), why
    done = place.runner("launch", *held)
    assert (done.returncode, len(place.login.runs())) == (NOT_VERIFIED, 2)
    assert "a.sif is not the file that images.lock recorded" in done.stderr


def test_our_own_image_proves_itself(place: Place) -> None:
    done = place.runner("verify", "--json", IMAGE)
    states = {check["name"]: check["state"] for check in json.loads(done.stdout)["checks"]}
    assert done.returncode == 0, done.stdout
    for name in ("whole", "architecture", "labels", "check-build", "self-test"):
        assert states[name] == "pass", done.stdout


def test_the_facts_and_the_list_of_packages_of_our_image(place: Place) -> None:
    found = facts(place, IMAGE, PATH="/opt/runner/bin")
    assert found["horovod.version"] == {"value": "0.28.1", "source": "label"}
    assert "unknown" not in {found[name]["value"] for name in ("mpi.version", "pmix.version")}
    command = documents.command("apptainer exec horovod_cpu.sif ")  # the guide's
    listed = place.sh(command.replace("horovod_cpu.sif", IMAGE))
    assert f"torch=={found['torch.version']['value']} --hash=sha256:" in listed
