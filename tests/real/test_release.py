"""A release against a real registry: of two builders, signed, pulled, mirrored; and refused."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from runners import __version__
from runners.core.architecture import architecture
from runners.release.record import DOCUMENTS

from . import built, servers
from .conftest import Login, on_cluster
from .desk import FAULT, NOT_VERIFIED, REFUSED, USAGE, Desk, desk, digest_of
from .servers import Server
from .terminal import terminal

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
    """A folder with images, keys, and builders' folders, where releases are made."""

    def release(self, *words: str) -> str:
        """Run `runner release` that must succeed; return both outputs."""
        done = self.run("runner", "release", *words, env=self.env)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def refused(self, code: int, *words: str) -> str:
        """Run `runner release` that must fail with this code; return what it said."""
        done = self.run("runner", "release", *words, env=self.env)
        assert done.returncode == code, done.stdout + done.stderr
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
    """Two builders' folders, one/ and two/ with the same image, three/ with another one."""
    folder = on_cluster(["mktemp", "-d", "/scratch/ada/release.XXXXXX"]).stdout.strip()
    assert folder, "the cluster is down; start it: make cluster-up"
    home = Workshop(folder)
    try:
        home.sh(MAKE + KEYS)
        for name, image in (("one", "ours"), ("two", "ours"), ("three", "other")):
            uri = f"https://example.org/{name}"
            home.release("prepare", f"{image}/horovod_cpu.sif", "--builder", uri, "-o", name)
        yield home
    finally:
        on_cluster(["rm", "-rf", folder])


@pytest.fixture(scope="module")
def registry(workshop: Workshop) -> Iterator[Server]:
    """A registry with the release of one/ and two/."""
    with servers.registry(workshop, "registry") as server:
        published(workshop, f"oras://{server.host}/kit")
        yield server


def published(workshop: Workshop, target: str, key: str = "ada@example.org") -> str:
    return workshop.release("publish", "one", "two", "--to", target, "--key", key)


def settings(desk: Desk, source: str, key: str) -> None:
    desk.write("runner.toml", f'[images]\nsource = "{source}"\nkey = "{key}"')


def test_a_builder_gives_its_image_with_what_is_known_of_it(workshop: Workshop) -> None:
    names = sorted(f"{STEM}.{ending}" for ending in ("sif", "oci.tar", *DOCUMENTS))
    assert workshop.sh("ls one").split() == names
    statement = json.loads(workshop.sh(f"cat one/{STEM}.intoto.json"))
    digest = digest_of(workshop, "ours/horovod_cpu.sif")
    assert statement["subject"] == [{"name": f"{STEM}.sif", "digest": {"sha256": digest[7:]}}]
    predicate = statement["predicate"]
    assert predicate["runDetails"]["builder"]["id"] == "https://example.org/one"
    assert {"uri": "pkg:pypi/torch@2"} in predicate["buildDefinition"]["resolvedDependencies"]
    assert "2 ranks agree" in json.dumps(predicate["runDetails"])


def test_an_image_named_with_its_architecture_is_the_same_image(workshop: Workshop) -> None:
    workshop.sh("mkdir -p named; cp ours/horovod_cpu.sif named/horovod_cpu.amd64.sif")
    uri = "https://example.org/four"
    workshop.release("prepare", "named/horovod_cpu.amd64.sif", "--builder", uri, "-o", "four")
    workshop.sh(f"cmp one/{STEM}.sif four/{STEM}.sif; cmp one/{STEM}.lock four/{STEM}.lock")


def test_what_is_not_prepared(workshop: Workshop) -> None:
    words = ("--builder", "x", "-o", "none")
    said = workshop.refused(NOT_VERIFIED, "prepare", "failing/horovod_cpu.sif", *words)
    assert "horovod_cpu.sif fails its own test\n  torch over Gloo: ranks are alone" in said
    said = workshop.refused(REFUSED, "prepare", "changed/horovod_cpu.sif", *words)
    assert "its revision is 0123456-dirty" in said
    assert "is not an image of this project" in workshop.refused(
        REFUSED, "prepare", "shell.sif", *words
    )
    again = ("--builder", "x", "-o", "one")
    said = workshop.refused(USAGE, "prepare", "ours/horovod_cpu.sif", *again)
    assert f"one has {STEM}.sif already" in said
    assert workshop.sh("ls -A none 2>/dev/null || true") == ""


def test_builders_who_differ_publish_nothing(workshop: Workshop, registry: Server) -> None:
    where = f"oras://{registry.host}/never"
    words = ("--to", where, "--key", "ada@example.org")
    said = workshop.refused(NOT_VERIFIED, "publish", "one", "three", *words)
    assert f"the builders of {STEM} differ" in said
    assert "https://example.org/three: sha256:" in said
    assert "was built by one alone" in workshop.refused(REFUSED, "publish", "one", *words)
    workshop.sh(f"cp -r two tampered; echo x >> tampered/{STEM}.sif")
    said = workshop.refused(NOT_VERIFIED, "publish", "one", "tampered", *words)
    assert f"tampered/{STEM}.sif is not what https://example.org/two built" in said
    said = workshop.refused(FAULT, "publish", "one", "two", *words[:-1], "nobody@example.org")
    assert "gpg cannot sign with the key nobody@example.org" in said
    assert registry.requests("/v2/never/") == 0
    assert workshop.sh("find . -maxdepth 2 -name '.release-*'") == ""


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
    done = desk.runner("images", "mirror", "mirror")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{desk.folder}/mirror\n"
    endings = ("sif", "oci.tar", *DOCUMENTS)
    names = [*(f"{STEM}.{each}" for each in endings), RECORD, f"{RECORD}.asc", "release-key.asc"]
    assert desk.sh("LC_ALL=C ls -A mirror").split() == sorted(names)
    for ending in endings[:2]:
        desk.sh(f"cmp mirror/{STEM}.{ending} {workshop.folder}/one/{STEM}.{ending}")
    assert len(desk.sh(f"cat mirror/{STEM}.intoto.json").splitlines()) == 2, "one of each builder"
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
    done = desk.runner("images", "mirror", to, env=env)
    assert done.returncode == 0, done.stderr
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
    desk.sh(f"rm old/{STEM}.cdx.json")
    done = desk.runner("images", "mirror", "further")
    assert done.returncode == USAGE
    assert f"old/{STEM}.cdx.json is missing" in done.stderr
    assert desk.sh("ls -A further 2>/dev/null || true") == ""


def test_what_was_written_about_an_image_is_found_from_it(
    workshop: Workshop, registry: Server
) -> None:
    # Debian's registry has no referrers: they are below the tag that the specification names.
    base = f"http://{registry.host}/v2/kit/horovod_cpu"
    get = "curl -sf -H 'Accept: application/vnd.oci.image.manifest.v1+json'"
    tag = f"{__version__}-{architecture()}"
    digest = workshop.sh(f"{get} {base}/manifests/{tag} | sha256sum").split()[0]
    accept = "-H 'Accept: application/vnd.oci.image.index.v1+json'"
    index = json.loads(workshop.sh(f"curl -sf {accept} {base}/manifests/sha256-{digest}"))
    assert sorted(each["artifactType"] for each in index["manifests"]) == sorted(DOCUMENTS.values())
    for entry in index["manifests"]:
        manifest = json.loads(workshop.sh(f"{get} {base}/manifests/{entry['digest']}"))
        assert manifest["subject"]["digest"] == f"sha256:{digest}"
    # Any client takes the image, and the same as an OCI image.
    to = f"--no-https out.sif oras://{registry.host}/kit/horovod_cpu:{tag}"
    workshop.sh(f"apptainer pull {to}; cmp out.sif ours/horovod_cpu.sif; rm out.sif")
    to = f"--no-https out.sif docker://{registry.host}/kit/horovod_cpu-oci:{tag}"
    workshop.sh(f"apptainer pull {to}; apptainer exec out.sif python; rm out.sif")


def test_a_launch_without_its_image_asks_at_a_terminal(
    workshop: Workshop, desk: Desk, registry: Server
) -> None:
    settings(desk, f"oras://{registry.host}/kit", workshop.key)
    env = {"RUNNER_SCRATCH": f"{desk.folder}/scratch", "APPTAINER_NOHTTPS": "1"}
    held = ["--sbatch-arg=--hold", desk.write("train.py", "pass")]
    launch = ["runner", "launch", "--image", "horovod_cpu.sif", *held]
    with terminal(desk, *launch, env=env) as screen:
        screen.see("the image horovod_cpu.sif does not exist")
        screen.see(f"pull .* MB from oras://{registry.host}/kit/horovod_cpu:.*signed by")
        screen.see("build +about 13 minutes")
        screen.see(r"which \(pull, build, neither\) \[pull\]")
        screen.type("neither\r")
        screen.see("try: runner pull cpu")
        assert screen.end() == USAGE
    assert desk.runs() == []
    with terminal(desk, *launch, env=env) as screen:
        screen.see("which")
        screen.type("\r")
        job = screen.see(r"job (\d+) submitted")[1]
        assert screen.end() == 0
    assert desk.runner("cancel", job).returncode == 0
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
    image = f"{folder}/horovod_cpu.sif"  # anew: it has to be of the commit that is tested
    built.build("cpu", "-o", image, seconds=1200)
    built.bring(folder)
    for name in ("cpu-a", "cpu-b"):
        workshop.release("prepare", image, "--builder", f"https://example.org/{name}", "-o", name)
    where = f"{desk.folder}/kit"
    done = workshop.release("publish", "cpu-a", "cpu-b", "--to", where, "--key", "ada@example.org")
    assert f" {where}/{STEM}.sif\n" in done
    workshop.sh(f"rm -r cpu-a cpu-b {folder}")
    settings(desk, where, workshop.key)
    desk.pull("cpu")
    words = ["launch", "--image", "horovod_cpu.sif", "-N", "2", "--wait", "torch_mnist"]
    done_job = desk.runner(*words, "--", "--epochs", "1")
    assert done_job.returncode == 0, done_job.stderr
