"""What users add to our own image: Python packages, and Debian's from the machine's archive."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .conftest import IMAGE, succeeded
from .servers import Server, website
from .test_build_derived import traces
from .yard import Yard, yard

__all__ = ["yard"]

# Debian 12 with apt, as it is in the CPU image, without what is large in that.
SMALL = f"""Bootstrap: localimage
From: {IMAGE}
%post
  rm -rf /opt/horovod /trainers /.singularity.d/labels.json
%test
  true
"""
# An archive with one package for one release; this machine is of another.
ARCHIVE = """
list=main/binary-amd64/Packages
mkdir -p package/DEBIAN package/usr/bin archive/debian/pool \\
    "archive/debian/dists/bookworm/$(dirname $list)"
printf '#!/bin/sh\\necho zork\\n' > package/usr/bin/zork; chmod 755 package/usr/bin/zork
printf '%s\\n' 'Package: zork' 'Version: 1.0' 'Architecture: all' \\
    'Maintainer: x <x@example.org>' 'Description: x' > package/DEBIAN/control
dpkg-deb --root-owner-group --build package archive/debian/pool/zork.deb > /dev/null
cd archive/debian
(cat ../../package/DEBIAN/control
 echo "Filename: pool/zork.deb"; echo "Size: $(stat -c %s pool/zork.deb)"
 echo "SHA256: $(sha256sum pool/zork.deb | cut -d' ' -f1)") \\
    > dists/bookworm/$list
cd dists/bookworm
(printf '%s\\n' 'Suite: bookworm' 'Codename: bookworm' 'Components: main' \\
    'Architectures: amd64' SHA256:
 echo " $(sha256sum $list | cut -d' ' -f1) $(stat -c %s $list) $list") > Release
cp -r . ../bookworm-updates
sed -i -E 's/^(Suite|Codename): .*/&-updates/' ../bookworm-updates/Release
"""
# As ada, on a machine with other sources than this one.
ELSEWHERE = """
echo '{line}' > sources.list; mount --bind sources.list /etc/apt/sources.list
setpriv --reuid=1000 --regid=1000 --init-groups env HOME=/home/ada USER=ada \\
    RUNNER_SCRATCH=$PWD/scratch runner build {words} 2>&1 || echo code $?
"""
INSTALL = "%post\n  apt-get -q update\n  apt-get -qy install {}\n"


@pytest.mark.slow
def test_the_guides_command_on_the_cpu_image(yard: Yard) -> None:
    yard.sh("mkdir wheels; python3 /opt/kit/tests/real/make_wheel.py wheels alpha==1.0")
    yard.write("extra.txt", "alpha")
    words = ["--from", IMAGE, "--requirements", "extra.txt", "-o", "mine.sif"]
    # As strongly as the base is packed takes five minutes on two idle cores.
    environ = {"RUNNER_SCRATCH": yard.scratch, "RUNNER_PACK_LEVEL": "1"}
    command = ["runner", "build", *words, "--wheelhouse", "wheels"]
    succeeded(yard.run(*command, env=environ, timeout=900))
    program = "import alpha, horovod.torch; print(alpha.VERSION)"
    assert yard.sh(f"apptainer exec mine.sif python -c '{program}'") == "1.0\n"
    listed = yard.sh("apptainer exec mine.sif cat /opt/horovod/horovod_cpu.lock")
    assert "alpha==1.0 --hash=sha256:" in listed


@pytest.fixture(scope="module")
def archive(yard: Yard) -> Iterator[Server]:
    """Serve the archive; make the small image."""
    yard.sh(ARCHIVE)
    yard.write("small.def", SMALL)
    quick = '--mksquashfs-args "-comp zstd -Xcompression-level 1"'
    yard.sh(f"apptainer build {quick} small.sif small.def")
    with website(yard, "archive") as server:
        yield server


def build(yard: Yard, archive: Server, words: str) -> str:
    line = f"deb [trusted=yes] http://{archive.host}/debian trixie main"
    return succeeded(yard.as_root(ELSEWHERE.format(line=line, words=words))).stdout


def test_apt_has_the_machines_archive_for_the_images_release(yard: Yard, archive: Server) -> None:
    yard.write("add.def", "Bootstrap: docker\nFrom: x\n" + INSTALL.format("zork"))
    said = build(yard, archive, "--from small.sif --def add.def -o added.sif")
    assert "code" not in said.splitlines()[-1], said
    assert yard.sh("apptainer exec added.sif zork") == "zork\n"
    folders = "/etc/apt/sources.list.d /etc/apt/apt.conf.d /var/lib/apt/lists"
    left = [yard.sh(f"apptainer exec {name} ls {folders}") for name in ("added.sif", "small.sif")]
    assert left[0] == left[1], "it has the sources that its base has"
    assert traces(yard, "added.sif", archive.host, archive.host.replace(":", "%3a")) == ""


def test_a_definition_that_names_the_image_itself(yard: Yard, archive: Server) -> None:
    body = "%post -c /bin/bash\n  [[ x ]]\n" + INSTALL.format("zork").removeprefix("%post\n")
    yard.write("own.def", f"Bootstrap: localimage\nFrom: small.sif\n{body}  exit 0\n")
    said = build(yard, archive, "own.def -o own.sif")
    assert "code" not in said.splitlines()[-1], said
    assert yard.sh("apptainer exec own.sif zork") == "zork\n"
    assert traces(yard, "own.sif", archive.host) == ""


def test_a_package_that_is_nowhere(yard: Yard, archive: Server) -> None:
    yard.write("none.def", "Bootstrap: docker\nFrom: x\n" + INSTALL.format("frobozz"))
    said = build(yard, archive, "--from small.sif --def none.def -o none.sif")
    assert "apt knows no package of that name\n  | E: Unable to locate package frobozz" in said
    assert said.splitlines()[-1] == "code 1"
