"""A release against a real registry: signed, pulled, mirrored; and refused."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from runners.core.machine import architecture
from runners.core.version import __version__

from . import built, servers
from .conftest import Login, ended, new_folder, on_cluster, succeeded
from .desk import FAULT, NOT_VERIFIED, REFUSED, USAGE, Desk, desk, digest_of
from .servers import Server

__all__ = ["desk"]  # pytest looks for fixtures among a module's names
STEM = f"horovod_cpu-{__version__}-{architecture()}"
RECORD = f"release-{__version__}.json"
MAKE = f"""
bash /opt/kit/tests/real/tiny.sh > tiny.log 2>&1
VERSION={__version__} bash /opt/kit/tests/real/release_images.sh > images.log 2>&1
"""
KEYS = """
export GNUPGHOME=$PWD/gnupg
mkdir -m 700 gnupg
for name in ada eve; do
    gpg --batch --quiet --passphrase '' --quick-generate-key "$name@example.org" default sign never
    gpg --armor --export "$name@example.org" > $name.asc
done
gpgconf --kill all
"""


class Workshop(Login):
    """A folder with images and keys, where releases are made."""

    def release(self, *words: str) -> str:
        """Run `runner release` that must succeed; return both outputs."""
        done = succeeded(self.run("runner", "release", *words, env=self.env))
        return done.stdout + done.stderr

    def refused(self, code: int, *words: str) -> str:
        """Run `runner release` that must fail with this code; return what it said."""
        done = ended(self.run("runner", "release", *words, env=self.env), code)
        assert "Traceback" not in done.stderr
        return done.stderr

    @property
    def env(self) -> dict[str, str]:
        ours = {"GNUPGHOME": f"{self.folder}/gnupg", "RUNNER_SCRATCH": f"{self.folder}/scratch"}
        return {**ours, "APPTAINER_NOHTTPS": "1"}

    @property
    def key(self) -> str:
        return f"{self.folder}/ada.asc"


@pytest.fixture(scope="module")
def workshop() -> Iterator[Workshop]:
    """Images, keys, and no release yet."""
    folder = new_folder(name="release")
    home = Workshop(folder)
    try:
        home.sh(MAKE + KEYS)
        yield home
    finally:
        on_cluster(["rm", "-rf", folder])


@pytest.fixture(scope="module")
def registry(workshop: Workshop) -> Iterator[Server]:
    """A registry with the release of ours/."""
    with servers.registry(workshop, "registry") as server:
        published(workshop, f"oras://{server.host}/kit")
        yield server


def published(workshop: Workshop, target: str, key: str = "ada@example.org") -> str:
    return workshop.release("ours/horovod_cpu.sif", "--to", target, "--key", key)


def settings(desk: Desk, source: str, key: str) -> None:
    desk.write("runner.toml", f'[images]\nsource = "{source}"\nkey = "{key}"')


def test_a_folder_gets_the_image_and_the_signed_list(workshop: Workshop, desk: Desk) -> None:
    workshop.sh("mkdir -p named; cp ours/horovod_cpu.sif named/horovod_cpu.amd64.sif")
    for number, image in enumerate(("ours/horovod_cpu.sif", "named/horovod_cpu.amd64.sif")):
        target = f"{desk.folder}/{number}"
        said = workshop.release(image, "--to", target, "--key", "ada@example.org")
        digest = digest_of(workshop, image)
        assert f"{digest} {target}/{STEM}.sif\n" in said
        names = [f"{STEM}.sif", RECORD, f"{RECORD}.asc"]
        assert desk.sh(f"LC_ALL=C ls -A {number}").split() == names
        listed = json.loads(desk.sh(f"cat {number}/{RECORD}"))
        assert [each["digest"] for each in listed["images"]] == [digest]


def test_what_is_not_released(workshop: Workshop, registry: Server) -> None:
    words = ("--to", f"oras://{registry.host}/never", "--key", "ada@example.org")
    said = workshop.refused(REFUSED, "changed/horovod_cpu.sif", *words)
    assert "its revision is 0123456-dirty" in said
    assert "is not an image of this project" in workshop.refused(REFUSED, "shell.sif", *words)
    said = workshop.refused(REFUSED, *("ours/horovod_cpu.sif", "newer/horovod_cpu.sif"), *words)
    assert "the images are not of one revision\n  ours/horovod_cpu.sif" in said.replace(
        f"{workshop.folder}/", ""
    )
    twice = ("ours/horovod_cpu.sif",) * 2
    assert "two of the images are the same" in workshop.refused(REFUSED, *twice, *words)
    said = workshop.refused(FAULT, twice[0], *words[:-1], "nobody@example.org")
    assert "gpg cannot sign with the key nobody@example.org" in said
    assert registry.requests("/v2/never/") == 0
    assert workshop.sh("find . -maxdepth 4 -name '.release-*'") == ""


def test_cpu_is_the_image_of_this_version_from_a_release_that_was_verified(
    workshop: Workshop, desk: Desk, registry: Server
) -> None:
    source = f"oras://{registry.host}/kit"
    launch = ["launch", "--image", "horovod_cpu.sif", "--dry-run", desk.write("train.py", "pass")]
    assert "try: runner build cpu" in desk.runner(*launch).stderr
    assert "no source of prebuilt images is set" in desk.refused(USAGE, "cpu")
    settings(desk, source, workshop.key)
    assert "try: runner pull cpu" in desk.runner(*launch).stderr
    said = desk.refused(REFUSED, "cpu", "--arch", "ppc64le")
    assert f"has no horovod_cpu for ppc64le\n  it was published for {architecture()}" in said
    assert f"release {__version__} has no horovod_gpu" in desk.refused(REFUSED, "gpu")
    facts = desk.pull("cpu")
    digest = digest_of(workshop, "ours/horovod_cpu.sif")
    assert (facts["name"], facts["digest"]) == ("horovod_cpu.sif", digest)
    assert facts["source"] == f"{source}/horovod_cpu:{__version__}-{architecture()}"
    assert desk.runner(*launch).returncode == 0
    away = {"RUNNER_IMAGES_SOURCE": "https://example.org/kit"}
    said = desk.refused(USAGE, "cpu", env=away)
    assert "RUNNER_IMAGES_SOURCE: 'https://example.org/kit' is no source of images" in said


def test_a_release_that_cannot_be_trusted_brings_nothing(
    workshop: Workshop, desk: Desk, registry: Server
) -> None:
    source = f"oras://{registry.host}/kit"
    settings(desk, source, f"{workshop.folder}/eve.asc")
    said = desk.refused(NOT_VERIFIED, "cpu")
    assert f"the signature of release {__version__} of {source} is wrong" in said
    assert "it is signed with another key" in said
    settings(desk, source, "")
    assert "no public key is known here" in desk.refused(REFUSED, "cpu")
    settings(desk, source, desk.write("no.asc", "x"))
    assert "no.asc is no file with a public PGP key" in desk.refused(USAGE, "cpu")
    folder = f"{desk.folder}/copy"
    published(workshop, folder)
    settings(desk, folder, workshop.key)
    desk.sh(f"sed -i s/{__version__}/9.9.9/ copy/{RECORD}")
    said = desk.refused(NOT_VERIFIED, "cpu")
    assert "the signature does not fit: it was altered after it was signed" in said
    # Never built in its place: somebody may have put it there.
    assert "altered" in desk.refused(NOT_VERIFIED, "cpu", "--or-build")
    published(workshop, folder)
    desk.sh(f"echo x >> copy/{STEM}.sif")
    assert f"{STEM}.sif is not what it should be; removed" in desk.refused(NOT_VERIFIED, "cpu")


def test_a_mirror_serves_those_without_network(
    workshop: Workshop, desk: Desk, registry: Server
) -> None:
    settings(desk, f"oras://{registry.host}/kit", workshop.key)
    done = succeeded(desk.runner("images", "mirror", "mirror"))
    assert done.stdout == f"{desk.folder}/mirror\n"
    names = [f"{STEM}.sif", RECORD, f"{RECORD}.asc", "release-key.asc"]
    assert desk.sh("LC_ALL=C ls -A mirror").split() == sorted(names)
    desk.sh(f"cmp mirror/{STEM}.sif {workshop.folder}/ours/horovod_cpu.sif")
    # It is the site's folder of images: its users need no option.
    key = workshop.key
    site = f'title = "Here"\n[paths]\nimages = "{desk.folder}/mirror"'
    desk.sh("rm runner.toml; mkdir sites")
    desk.write("sites/here.toml", site)
    env = {"RUNNER_SITES_PATH": f"{desk.folder}/sites", "RUNNER_SITE": "here"}
    facts = desk.pull("cpu", env=env)
    assert facts["digest"] == digest_of(workshop, "ours/horovod_cpu.sif")
    # And on to a registry of their own.
    to = f"oras://{registry.host}/mine"
    succeeded(desk.runner("images", "mirror", to, env=env))
    settings(desk, to, key)
    assert desk.pull("cpu", "--update", "--name", "again")["digest"] == facts["digest"]


def test_a_mirror_that_is_behind_says_what_it_has(workshop: Workshop, desk: Desk) -> None:
    published(workshop, f"{desk.folder}/old")
    desk.sh(
        f"mv old/{RECORD} old/release-0.0.9.json; mv old/{RECORD}.asc old/release-0.0.9.json.asc"
    )
    settings(desk, f"{desk.folder}/old", workshop.key)
    said = desk.refused(USAGE, "cpu")
    assert f"{desk.folder}/old has no release {__version__}" in said
    assert "it has 0.0.9" in said
    desk.sh(
        f"cp old/release-0.0.9.json old/{RECORD}; cp old/release-0.0.9.json.asc old/{RECORD}.asc"
    )
    desk.sh(f"echo x >> old/{STEM}.sif")
    done = desk.runner("images", "mirror", "further")
    ended(done, NOT_VERIFIED, f"old/{STEM}.sif is not what was released")
    desk.sh(f"rm old/{STEM}.sif")
    ended(desk.runner("images", "mirror", "further"), USAGE, f"old/{STEM}.sif is missing")
    assert desk.sh("ls -A further 2>/dev/null || true") == ""


def test_any_client_takes_the_image(workshop: Workshop, registry: Server) -> None:
    source = f"oras://{registry.host}/kit/horovod_cpu:{__version__}-{architecture()}"
    pull = f"apptainer pull --no-https out.sif {source}"
    workshop.sh(f"{pull}; cmp out.sif ours/horovod_cpu.sif; rm out.sif")


def test_a_launch_without_its_image_names_what_gets_it(
    workshop: Workshop, desk: Desk, registry: Server
) -> None:
    settings(desk, f"oras://{registry.host}/kit", workshop.key)
    env = {"RUNNER_SCRATCH": f"{desk.folder}/scratch", "APPTAINER_NOHTTPS": "1"}
    held = ["--sbatch-arg=--hold", desk.write("train.py", "pass")]
    launch = ["launch", "--image", "horovod_cpu.sif", "--parsable", *held]
    done = desk.runner(*launch, env=env)
    assert done.returncode == USAGE
    assert "the image horovod_cpu.sif does not exist" in done.stderr
    assert "try: runner pull cpu\n  try: runner build cpu" in done.stderr
    assert desk.runs() == []
    assert desk.runner("pull", "cpu", env=env).returncode == 0
    done = succeeded(desk.runner(*launch, env=env))
    assert desk.runner("cancel", done.stdout.strip()).returncode == 0
    link = desk.sh("readlink scratch/images/horovod_cpu.sif").strip()
    digest = digest_of(workshop, "ours/horovod_cpu.sif")
    assert link == f"{digest.replace(':', '-')}.sif"


def test_a_source_that_is_down_is_told_and_the_image_built(workshop: Workshop, desk: Desk) -> None:
    with servers.registry(workshop, "dead") as server:
        gone = f"oras://{server.host}/kit"
    settings(desk, gone, workshop.key)
    done = desk.runner("pull", "cpu", "--or-build", env={"RUNNER_DEBIAN_MIRROR": "nonsense"})
    assert done.returncode != 0, "it cannot be built here: nodes have no network"
    told = done.stderr.splitlines()
    building = told.index("runner: building instead")
    assert gone.partition("//")[2].partition("/")[0] in "".join(told[:building])
    assert told[building + 1 :], "and then it builds"
    assert desk.sh("find scratch -name '*.sif'; ls images.lock 2>/dev/null || true") == ""


@pytest.mark.slow
def test_the_cpu_image_itself_becomes_a_release_and_trains(workshop: Workshop, desk: Desk) -> None:
    folder = f"{workshop.folder}/built"
    image = f"{folder}/horovod_cpu.sif"  # built again: it has to be of the commit that is tested
    built.build("cpu", "-o", image, seconds=1200)
    where = f"{desk.folder}/kit"
    done = workshop.release(image, "--to", where, "--key", "ada@example.org")
    assert f" {where}/{STEM}.sif\n" in done
    workshop.sh(f"rm -r {folder}")
    settings(desk, where, workshop.key)
    desk.pull("cpu")
    words = ["launch", "--image", "horovod_cpu.sif", "-N", "2", "--wait", "torch_mnist"]
    succeeded(desk.runner(*words, "--", "--epochs", "1"))
