"""Prebuilt images: pushed and listed at a registry and in a folder, pulled by the list; refused."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import pytest

from runners.core.machine import architecture
from runners.core.version import __version__

from . import built, servers
from .conftest import Login, ended, new_folder, on_cluster, succeeded
from .desk import NOT_VERIFIED, REFUSED, USAGE, ZEROS, Desk, desk, digest_of
from .servers import Server

__all__ = ["desk"]  # pytest looks for fixtures among a module's names
STEM = f"horovod_cpu-{__version__}-{architecture()}"
# What stands for our CPU image: a shell, and an empty script in place of Python; another one of the
# same version; and the first as if made for Arm, by the machine's code in its table of contents.
MAKE = f"""
bash /opt/kit/tests/real/tiny.sh > tiny.log 2>&1
printf '#!/bin/sh\\n' > root/usr/bin/python
chmod 755 root/usr/bin/python
for folder in ours other; do
    mkdir $folder
    printf 'Bootstrap: localimage\\nFrom: root\\n%%labels\\n  from %s\\n' $folder > image.def
    printf '  org.opencontainers.image.version {__version__}\\n' >> image.def
    apptainer build --mksquashfs-args "-comp zstd -Xcompression-level 1" \\
        $folder/horovod_cpu.sif image.def > $folder.log 2>&1
done
mkdir arm
cp ours/horovod_cpu.sif arm/
"""
AS_ARM = """
data = open("arm/horovod_cpu.sif", "rb").read()
place = data.rindex(b"02\\0", 0, 32000)
open("arm/horovod_cpu.sif", "wb").write(data[:place] + b"04" + data[place + 2:])
"""


class Workshop(Login):
    """A folder with images, from where they are pushed."""

    def push(self, image: str, source: str) -> str:
        """List an image; return what `runner pull` takes for it."""
        done = succeeded(self.runner("push", "--no-https", "--list", image, source))
        return done.stdout.strip()


@pytest.fixture(scope="module")
def workshop() -> Iterator[Workshop]:
    """Images, and none listed yet."""
    folder = new_folder(name="prebuilt")
    home = Workshop(folder)
    try:
        home.sh(f"{MAKE}\npython3 -c {shlex.quote(AS_ARM)}")
        yield home
    finally:
        on_cluster(["rm", "-rf", folder])


@pytest.fixture(scope="module")
def registry(workshop: Workshop) -> Iterator[Server]:
    """A registry that has and lists ours/horovod_cpu.sif."""
    with servers.registry(workshop, "registry") as server:
        workshop.push("ours/horovod_cpu.sif", f"oras://{server.host}/kit")
        yield server


def settings(desk: Desk, source: str) -> None:
    desk.write("runner.toml", f'[images]\nsource = "{source}"')


def test_a_folder_gets_the_image_and_the_list(workshop: Workshop, desk: Desk) -> None:
    source = f"{desk.folder}/new/images"
    workshop.sh("mkdir -p named; cp ours/horovod_cpu.sif named/horovod_cpu.amd64.sif")
    for image in ("ours/horovod_cpu.sif", "named/horovod_cpu.amd64.sif"):  # the same one
        assert workshop.push(image, source) == f"{source}/{STEM}.sif"
    workshop.push("arm/horovod_cpu.sif", source)
    arm = STEM.replace(architecture(), "arm64")
    assert desk.sh("LC_ALL=C ls -A new/images").split() == sorted(
        [f"{STEM}.sif", f"{arm}.sif", "prebuilt.toml"]
    )
    listed = desk.sh("cat new/images/prebuilt.toml")
    assert listed.count("[[image]]") == 2
    for image, name in (("ours", architecture()), ("arm", "arm64")):
        digest = digest_of(workshop, f"{image}/horovod_cpu.sif")
        assert f'architecture = "{name}"\ndigest = "{digest}"\n' in listed
    settings(desk, source)
    facts = desk.pull("cpu")
    assert facts["digest"] == digest_of(workshop, "ours/horovod_cpu.sif")
    facts = desk.pull("cpu", "--arch", "arm64")
    assert (facts["name"], facts["digest"]) == ("horovod_cpu.arm64.sif", digest)


def test_only_our_images_are_listed(workshop: Workshop, desk: Desk) -> None:
    done = workshop.runner("push", "--list", "shell.sif", f"{desk.folder}/images")
    ended(done, REFUSED, "shell.sif is not an image of this project")
    to = "docker://127.0.0.1:1/kit"
    done = workshop.runner("push", "--list", "ours/horovod_cpu.sif", to)
    ended(done, USAGE, "is no source of images", "oras://HOST/FOLDER, or a folder")
    assert desk.sh("ls") == ""


def test_cpu_is_the_listed_image_of_this_version(
    workshop: Workshop, desk: Desk, registry: Server
) -> None:
    source = f"oras://{registry.host}/kit"
    launch = ["launch", "--image", "horovod_cpu.sif", "--dry-run", desk.write("train.py", "pass")]
    assert "try: runner build cpu" in desk.runner(*launch).stderr
    assert "no source of prebuilt images is set" in desk.refused(USAGE, "cpu")
    settings(desk, source)
    assert "try: runner pull cpu" in desk.runner(*launch).stderr
    said = desk.refused(USAGE, "cpu", "--arch", "ppc64le")
    assert f"{source} has no horovod_cpu {__version__} for ppc64le" in said
    assert f"lists {__version__} for {architecture()}" in said
    assert "try: runner build cpu" in said
    assert f"has no horovod_gpu {__version__}" in desk.refused(USAGE, "gpu")
    assert "has no prebuilt.toml" in desk.refused(
        USAGE, "cpu", env={"RUNNER_IMAGES_SOURCE": desk.folder}
    )
    facts = desk.pull("cpu")
    digest = digest_of(workshop, "ours/horovod_cpu.sif")
    assert (facts["name"], facts["digest"]) == ("horovod_cpu.sif", digest)
    assert facts["source"] == f"{source}/horovod_cpu:{__version__}-{architecture()}"
    assert digest in desk.sh("cat images.lock")
    assert desk.runner(*launch).returncode == 0
    assert f"wanted {ZEROS}" in desk.refused(NOT_VERIFIED, "cpu", "--digest", ZEROS)
    away = {"RUNNER_IMAGES_SOURCE": "https://example.org/kit"}
    said = desk.refused(USAGE, "cpu", env=away)
    assert "RUNNER_IMAGES_SOURCE: 'https://example.org/kit' is no source of images" in said


def test_a_digest_that_was_pulled_changes_only_with_update(
    workshop: Workshop, desk: Desk, registry: Server
) -> None:
    ours, other = (digest_of(workshop, f"{name}/horovod_cpu.sif") for name in ("ours", "other"))
    for source in (f"oras://{registry.host}/changes", f"{desk.folder}/images"):
        settings(desk, source)
        workshop.push("ours/horovod_cpu.sif", source)
        assert desk.pull("cpu", "--update")["digest"] == ours
        workshop.push("other/horovod_cpu.sif", source)
        said = desk.refused(NOT_VERIFIED, "cpu")
        assert f"wanted {other}\n  images.lock has {ours}" in said
        assert "--update, if the image was changed on purpose" in said
        # Nor without the image, and never built in its place: somebody may have put it there.
        desk.sh("rm -r scratch")
        assert ours in desk.refused(NOT_VERIFIED, "cpu")
        assert ours in desk.refused(NOT_VERIFIED, "cpu", "--or-build")
        assert desk.pull("cpu", "--update")["digest"] == other
        assert other in desk.sh("cat images.lock")


def test_bytes_that_are_not_listed_are_refused(
    workshop: Workshop, desk: Desk, registry: Server
) -> None:
    source = f"{desk.folder}/copy"
    workshop.push("ours/horovod_cpu.sif", source)
    settings(desk, source)
    desk.sh(f"echo x >> copy/{STEM}.sif")
    assert f"{STEM}.sif is not what it should be; removed" in desk.refused(NOT_VERIFIED, "cpu")
    desk.sh(f"rm copy/{STEM}.sif")
    assert f"{STEM}.sif cannot be pulled: it is not there" in desk.refused(USAGE, "cpu")
    # The tag of the registry is another image than its list says.
    source = f"oras://{registry.host}/moved"
    tag = workshop.push("ours/horovod_cpu.sif", source)
    succeeded(workshop.runner("push", "--no-https", "other/horovod_cpu.sif", tag))
    settings(desk, source)
    assert "digest" in desk.refused(NOT_VERIFIED, "cpu")


def test_an_image_for_another_architecture_is_never_pulled(workshop: Workshop, desk: Desk) -> None:
    source = f"{desk.folder}/copy"
    workshop.push("arm/horovod_cpu.sif", source)
    settings(desk, source)
    assert f"has no horovod_cpu {__version__} for {architecture()}" in desk.refused(USAGE, "cpu")
    arm = STEM.replace(architecture(), "arm64")
    desk.sh(f"cd copy; mv {arm}.sif {STEM}.sif; sed -i s/arm64/{architecture()}/ prebuilt.toml")
    said = desk.refused(REFUSED, "cpu")
    assert f"is not for {architecture()}; removed\n  for arm64" in said


def test_a_list_counts_only_if_its_owner_is_trusted(workshop: Workshop, desk: Desk) -> None:
    workshop.push("ours/horovod_cpu.sif", f"{desk.folder}/copy")
    settings(desk, f"{desk.folder}/copy")
    listed = f"{desk.folder}/copy/prebuilt.toml"
    on_cluster(["chown", "bob", listed], user="root")
    said = desk.refused(USAGE, "cpu")
    assert f"{listed} belongs to bob" in said
    assert f"try: runner config trust {desk.folder}/copy" in said
    on_cluster(["chown", "root", listed], user="root")
    assert desk.pull("cpu")["digest"] == digest_of(workshop, "ours/horovod_cpu.sif")
    on_cluster(["chmod", "666", listed], user="root")
    assert "every user may write" in desk.refused(USAGE, "cpu")


def test_a_site_has_a_source_for_all_its_users(workshop: Workshop, desk: Desk) -> None:
    workshop.push("ours/horovod_cpu.sif", f"{desk.folder}/images")
    desk.sh("mkdir sites")
    desk.write("sites/here.toml", f'title = "Here"\n[images]\nsource = "{desk.folder}/images"')
    env = {"RUNNER_SITES_PATH": f"{desk.folder}/sites", "RUNNER_SITE": "here"}
    facts = desk.pull("cpu", env=env)
    assert facts["digest"] == digest_of(workshop, "ours/horovod_cpu.sif")


def test_a_pulled_image_is_pushed_on_to_a_mirror(desk: Desk, registry: Server) -> None:
    settings(desk, f"oras://{registry.host}/kit")
    digest = desk.pull("cpu")["digest"]
    mirror = f"{desk.folder}/mirror"
    succeeded(desk.runner("push", "--list", "horovod_cpu.sif", mirror))
    settings(desk, mirror)
    assert "from elsewhere" in desk.refused(REFUSED, "cpu"), "images.lock has the other source"
    assert desk.pull("cpu", "--update")["digest"] == digest


def test_any_client_takes_the_image(workshop: Workshop, registry: Server) -> None:
    source = f"oras://{registry.host}/kit/horovod_cpu:{__version__}-{architecture()}"
    pull = f"apptainer pull --no-https out.sif {source}"
    workshop.sh(f"{pull}; cmp out.sif ours/horovod_cpu.sif; rm out.sif")


def test_a_launch_without_its_image_names_what_gets_it(
    workshop: Workshop, desk: Desk, registry: Server
) -> None:
    settings(desk, f"oras://{registry.host}/kit")
    held = ["--sbatch-arg=--hold", desk.write("train.py", "pass")]
    launch = ["launch", "--image", "horovod_cpu.sif", "--parsable", *held]
    done = desk.runner(*launch)
    assert done.returncode == USAGE
    assert "the image horovod_cpu.sif does not exist" in done.stderr
    assert "try: runner pull cpu\n  try: runner build cpu" in done.stderr
    assert desk.runs() == []
    assert desk.runner("pull", "cpu").returncode == 0
    done = succeeded(desk.runner(*launch))
    assert desk.runner("cancel", done.stdout.strip()).returncode == 0
    link = desk.sh("readlink scratch/images/horovod_cpu.sif").strip()
    digest = digest_of(workshop, "ours/horovod_cpu.sif")
    assert link == f"{digest.replace(':', '-')}.sif"


def test_a_source_that_is_down_is_told_and_the_image_built(workshop: Workshop, desk: Desk) -> None:
    with servers.registry(workshop, "dead") as server:
        gone = f"oras://{server.host}/kit"
    settings(desk, gone)
    done = desk.runner("pull", "cpu", "--or-build", env={"RUNNER_DEBIAN_MIRROR": "nonsense"})
    assert done.returncode != 0, "it cannot be built here: nodes have no network"
    told = done.stderr.splitlines()
    building = told.index("runner: building instead")
    assert gone.partition("//")[2].partition("/")[0] in "".join(told[:building])
    assert told[building + 1 :], "and then it builds"
    assert desk.sh("find scratch -name '*.sif'; ls images.lock 2>/dev/null || true") == ""


@pytest.mark.slow
def test_the_cpu_image_itself_is_listed_pulled_and_trains(workshop: Workshop, desk: Desk) -> None:
    folder = f"{workshop.folder}/built"
    image = f"{folder}/horovod_cpu.sif"  # built again: of the commit that is tested
    built.build("cpu", "-o", image, seconds=1200)
    source = f"{desk.folder}/kit"
    assert workshop.push(image, source) == f"{source}/{STEM}.sif"
    workshop.sh(f"rm -r {folder}")
    settings(desk, source)
    desk.pull("cpu")
    words = ["launch", "--image", "horovod_cpu.sif", "-N", "2", "--wait", "torch_mnist"]
    succeeded(desk.runner(*words, "--", "--epochs", "1"))
