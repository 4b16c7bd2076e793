"""Dockerfiles are converted and built, and the trees are those that Podman builds of them.

So is a definition: Podman's tree of the Dockerfile is that which `runner build` makes.

Podman of Debian 13 knows here-documents and ADD of git references.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from .conftest import UNPACKED, succeeded
from .servers import registry, website
from .yard import Yard, yard

__all__ = ["yard"]

CASES = Path(__file__).parent / "dockerfiles"
WHERE = "--root $PWD/podman --runroot $PWD/run"
PODMAN = f"""
export XDG_RUNTIME_DIR=$PWD/run; mkdir -p run
podman() {{ command podman {WHERE} "$@"; }}
"""
# One system for both, under the names that the Dockerfiles have: that of the CPU image, Debian 12.
WITHOUT = """
.singularity.d .exec .run .shell .test singularity environment
opt/horovod trainers usr/share/doc usr/share/zoneinfo
usr/include usr/lib/gcc usr/lib/x86_64-linux-gnu/gconv usr/lib/x86_64-linux-gnu/openmpi
usr/lib/x86_64-linux-gnu/pmix2 usr/lib/x86_64-linux-gnu/perl
"""
MAKE_BASE = f"""
unshare --user --map-root-user --map-auto tar --numeric-owner -C {UNPACKED} \
    {" ".join(f"--exclude=./{name}" for name in WITHOUT.split())} -cf base.tar .
"""
# A context with what is hard to copy.
CONTEXT = """
mkdir -p "$1/data/deep/er" "$1/src/__pycache__"; cd "$1"
echo 1 > "one file.txt"; echo 2 > data/two; chmod 640 data/two; echo 3 > data/.hidden
ln -s two data/link; ln -s /nowhere data/dangling; ln -s .. data/deep/up; echo 4 > data/deep/er/four
ln -s data/two top-link
echo 'print("hello")' > src/train.py; echo x > src/__pycache__/train.pyc; chmod 755 src/train.py
echo secret > .env; echo 5 > .dotted; printf '#!/bin/sh\\necho tool\\n' > tool; chmod 750 tool
printf '**/__pycache__\\n.env\\n*.def\\n*.sif\\n!src\\n' > .dockerignore
tar -cf packed.tar.gz -z --owner=7 --group=8 data
cp packed.tar.gz looks-like.bin
"""
# Over http: Podman takes no other references, and fetches without the history, which needs Git's
# own program on the server.
GIT = """
mkdir -p web/x work; git init -q -b main work; cd work
git config user.email a@example.org; git config user.name a
mkdir sub; echo one > sub/file; git add .; git commit -qm one; git tag v1
echo two > sub/file; git commit -qam two
git clone -q --bare . ../web/x/y.git
echo fetched > ../web/file.txt
cd ../web; mkdir cgi-bin
printf '#!/bin/sh\\nGIT_PROJECT_ROOT=%s GIT_HTTP_EXPORT_ALL=1 exec git http-backend\\n' \
    "$PWD" > cgi-bin/git
chmod 755 cgi-bin/git
"""


@dataclass
class Bench:
    """The registry with the bases, the web, and the folder in which both programs build."""

    yard: Yard
    host: str
    web: str

    def podman(self, script: str) -> str:
        return self.yard.sh(f"{PODMAN}\n{script}")

    def text(self, name: str) -> str:
        text = (CASES / name).read_text(encoding="utf-8")
        return text.replace("HOST", self.host).replace("WEB", self.web)

    def built_by_podman(self, name: str) -> list[str]:
        walk = "python3 /opt/kit/tests/real/tree_lines.py"
        self.podman(f"""podman build -q --tls-verify=false --isolation chroot --network host \\
            --format docker -t {name} {name} > {name}.out 2>&1 || (cat {name}.out; exit 1)""")
        mount = f"$(podman {WHERE} image mount {name})"
        return sorted(self.podman(f"podman unshare sh -c '{walk} {mount}'").splitlines())

    def built_by_runner(self, name: str) -> list[str]:
        environ = {"RUNNER_PACK_LEVEL": "1"}
        made = self.yard.build(f"{name}/my.def", "-o", f"{name}.sif", env=environ)
        log = "cat scratch/horovod-runner/logs/*.log | tail -40"
        assert made.returncode == 0, made.stderr + self.yard.sh(log)
        lines = self.yard.sh(f"""
            apptainer build --fakeroot --sandbox tree {name}.sif > /dev/null 2>&1
            unshare --user --map-root-user --map-auto sh -c '
                python3 /opt/kit/tests/real/tree_lines.py tree; rm -rf tree'""")
        return sorted(lines.splitlines())


@pytest.fixture(scope="module")
def bench(yard: Yard) -> Iterator[Bench]:
    yard.sh(MAKE_BASE)
    yard.sh(GIT)
    with registry(yard, "registry") as server, website(yard, "web", "--cgi") as web:
        made = Bench(yard, server.host, web.host)
        made.podman("podman import -q base.tar base > /dev/null; rm base.tar")
        for name in ("debian:12-slim", "python:3.11-slim", "team/base:3.11"):
            made.podman(f"podman push -q --tls-verify=false base {server.host}/{name}")
        try:
            yield made
        finally:
            made.podman("podman system migrate")  # ends the process that holds its mounts
            made.yard.sh("unshare --user --map-root-user --map-auto rm -rf podman")


FAST = ("context", "stages", "heredocs")
SLOW = sorted({path.stem for path in CASES.glob("*.Dockerfile")} - set(FAST))


def compare(bench: Bench, name: str, source: str, made: str) -> None:
    """Build what `source` and what is `made` of it, and compare the trees."""
    succeeded(bench.yard.runner("convert", f"{name}/{source}", "-o", f"{name}/{made}"))
    # Docker leaves the repository of ADD's git references out; Podman keeps it.
    expected = [line for line in bench.built_by_podman(name) if "/.git" not in line]
    if made == "my.def":  # who runs the image is not root, and may use what is in root's home
        expected = [
            line.replace("drwx------ 0:0 /root", "drwxr-xr-x 0:0 /root") for line in expected
        ]
    built = bench.built_by_runner(name)
    missing = [line for line in expected if line not in set(built)]
    more = [line for line in built if line not in set(expected)]
    assert (missing, more) == ([], [])
    assert len(built) > 3000


def of_dockerfile(bench: Bench, name: str) -> None:
    bench.yard.sh(f"set -- {name}\n{CONTEXT}")
    bench.yard.write(f"{name}/Dockerfile", bench.text(f"{name}.Dockerfile"))
    compare(bench, name, "Dockerfile", "my.def")


@pytest.mark.parametrize("name", FAST)
def test_the_trees_are_equal(bench: Bench, name: str) -> None:
    of_dockerfile(bench, name)


def test_the_tree_of_a_definition_is_equal(bench: Bench) -> None:
    bench.yard.sh(f"set -- own\n{CONTEXT}")
    # Links are refused: Apptainer copies what they lead to.
    bench.yard.sh("cd own; find . -type l -delete; rm .dockerignore")
    bench.yard.write("own/my.def", bench.text("own.def"))
    compare(bench, "own", "my.def", "Dockerfile")
    said = bench.podman(
        "podman run --rm --network host --cgroups disabled own a 'b c'"
    ).splitlines()
    assert said == bench.yard.sh("apptainer run own.sif a 'b c'").splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_the_trees_of_more_are_equal(bench: Bench, name: str) -> None:
    of_dockerfile(bench, name)
