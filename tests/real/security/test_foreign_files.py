"""Settings, images and links of another user's, which must not read, write or run as ada."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.real.conftest import Done, Login, on_cluster

from .. import servers
from ..conftest import ended, succeeded
from .conftest import Stranger

USAGE, REFUSED = 2, 80
SETTINGS = (
    '[launch]\npartition = "bobs"\nbind = ["/scratch/bob:/opt"]\nenv = { LD_PRELOAD = "/x.so" }\n'
)
# A tree with a shell, and two squashfs of it. Apptainer's own tools make the SIF: its build would
# replace the links.
HOSTILE = """
chmod 755 .
mkdir -p root/{usr/bin,usr/lib,usr/lib64,etc,tmp,proc,sys,dev,root,home,opt,.singularity.d/env}
for folder in bin lib lib64; do ln -s usr/$folder root/$folder; done
echo 'root:x:0:0:root:/root:/bin/sh' > root/etc/passwd
for program in sh env; do
    file=$(readlink -f "$(type -P $program)")
    cp -L "$file" root/usr/bin/$program
    for library in $(ldd "$file" | grep -o '/[^ ]*'); do
        mkdir -p "root$(dirname $library)"
        [ -e "root$library" ] || cp -L "$library" "root$library"
    done
done
sif() {
    mksquashfs root tree.squashfs -quiet -no-progress -all-root
    apptainer sif new $1
    apptainer sif add --datatype 4 --partfs 1 --parttype 2 --partarch 2 $1 tree.squashfs
    rm tree.squashfs
}
mkdir root/opt/in
ln -s $1 root/opt/private; ln -s $1 root/trainers; ln -s $1/private root/opt/in/file
ln -s $1/private root/.singularity.d/runscript
sif reads.sif
rm root/.singularity.d/runscript
printf '#!/bin/sh\\n# of bob\\n' > root/.singularity.d/runscript
ln -s $1/written root/runscript
sif writes.sif
ln -s $1/labels.json root/.singularity.d/labels.json
"""


@pytest.fixture
def shared(bob: Stranger) -> Iterator[str]:
    """A folder in which everybody may write, and nobody removes what is another's."""
    folder = bob.sh("d=$(mktemp -d /scratch/shared/XXXXXX); chmod 1777 $d; echo $d").strip()
    yield folder
    on_cluster(["rm", "-rf", folder], user="root")


def there(login: Login, folder: str, *words: str) -> Done:
    return login.run("env", "-C", folder, "runner", *words)


def test_settings_of_bobs_are_refused_until_ada_trusts_them(
    login: Login, bob: Stranger, shared: str
) -> None:
    bob.sh(f"cat > {shared}/runner.toml <<'END'\n{SETTINGS}END")
    for words in (["config", "show"], ["launch", "--dry-run", "torch_mnist"], ["pull", "cpu"]):
        done = there(login, shared, *words)
        assert done.returncode == USAGE, done.stdout + done.stderr
        assert f"{shared}/runner.toml belongs to bob" in done.stderr
        assert f"try: runner config trust {shared}" in done.stderr
        assert "bobs" not in done.stdout + done.stderr
    for words in (["list"], ["list", "--json"], ["sites"]):  # they launch nothing by it
        done = succeeded(there(login, shared, *words))
        assert f"{shared}/runner.toml belongs to bob" in done.stderr
        assert f"try: runner config trust {shared}" in done.stderr
    try:
        assert there(login, shared, "config", "trust").returncode == 0
        assert "bobs" in there(login, shared, "config", "show").stdout
    finally:
        assert there(login, shared, "config", "trust", "--remove").returncode == 0
    assert there(login, shared, "config", "show").returncode == USAGE


def test_a_link_of_bobs_to_adas_settings_is_refused(
    login: Login, bob: Stranger, shared: str
) -> None:
    mine = login.write("other.toml", '[launch]\npartition = "elsewhere"')
    bob.sh(f"ln -s {mine} {shared}/runner.toml")
    done = there(login, shared, "config", "show")
    ended(done, USAGE, f"the link {shared}/runner.toml belongs to bob")


def test_a_lock_of_bobs_is_refused(login: Login, bob: Stranger, shared: str) -> None:
    bob.sh(f"echo 'form = 1' > {shared}/images.lock")
    done = there(login, shared, "pull", "docker://localhost:1/a/b:1")
    ended(done, USAGE, f"{shared}/images.lock belongs to bob")


def test_an_image_of_bobs_does_not_take_the_place_of_adas(
    login: Login, bob: Stranger, shared: str
) -> None:
    bob.sh(f"echo > {shared}/horovod_cpu.sif")
    done = there(login, shared, "inspect", "horovod_cpu.sif")
    ended(done, USAGE, f"{shared}/horovod_cpu.sif belongs to bob")
    named = there(login, shared, "inspect", "./horovod_cpu.sif")
    assert "belongs to" not in named.stderr  # it is no image, but was meant


def test_adas_file_that_everybody_may_write_is_refused(login: Login) -> None:
    login.write("runner.toml", "[launch]\nnodes = 2")
    assert login.runner("config", "show").returncode == 0
    login.sh("chmod 666 runner.toml")
    ended(login.runner("config", "show"), USAGE, "try: chmod o-w")
    login.sh("chmod 644 runner.toml; chmod 777 .")
    assert login.runner("config", "show").returncode == USAGE


def test_a_profile_of_bobs_among_the_sites(login: Login, bob: Stranger, shared: str) -> None:
    bob.sh(f"printf '[detect]\\nhosts = [\"*\"]\\n' > {shared}/bobs.toml")
    sites = {"RUNNER_SITES_PATH": shared}
    on_cluster(["chown", "root", shared], user="root")
    ended(login.runner("sites", env=sites), USAGE, f"{shared}/bobs.toml belongs to bob")
    on_cluster(["chown", "bob", shared], user="root")
    assert "bobs" in login.runner("sites", env=sites).stdout  # ada named bob's own folder


@pytest.fixture
def home(login: Login) -> str:
    """A folder of ada's with a private file, to which the images' links lead."""
    folder = f"{login.folder}/home"
    login.sh(
        f"mkdir -m 755 {folder}; cd {folder}; umask 077; echo 'ADAS SECRET' > private\n"
        """printf '{"secret": "ADAS SECRET"}' > labels.json"""
    )
    return folder


def test_an_image_of_bobs_is_pushed_without_a_look_at_adas_files(
    login: Login, bob: Stranger, home: str
) -> None:
    login.sh("chmod 755 .")
    bob.sh(f"set -- {home}\n{HOSTILE}")
    before = login.sh(f"find {home} -printf '%p %m %T@ %s\\n' | sort")
    for name in ("reads", "writes"):
        image = f"{bob.folder}/{name}.sif"
        scratch = {"RUNNER_SCRATCH": f"{login.folder}/scratch"}
        with servers.registry(login, name) as server:
            target = f"docker://{server.host}/ada/{name}:1"
            succeeded(login.runner("push", "--no-https", image, target, env=scratch))
        layers = login.sh(
            f"for blob in $(find {name} -name data); do tar -tvzf $blob 2> /dev/null || continue\n"
            "tar -xOzf $blob | grep -ao 'ADAS SECRET' || true; done"
        )
        assert "usr/bin/sh" in layers
        assert "ADAS SECRET" not in layers
        assert f"opt/private -> {home}" in layers
    assert login.sh(f"find {home} -printf '%p %m %T@ %s\\n' | sort") == before
    done = ended(login.runner("inspect", f"{bob.folder}/root"), REFUSED)
    assert "ADAS SECRET" not in done.stdout + done.stderr


def test_an_old_unsquashfs_does_not_unpack_it(login: Login, bob: Stranger, home: str) -> None:
    login.sh("mkdir bin; printf '#!/bin/sh\\necho unsquashfs version 4.4\\n' > bin/unsquashfs")
    login.sh("chmod 755 . bin/unsquashfs")
    bob.sh(f"set -- {home}\n{HOSTILE}")
    path = f"{login.folder}/bin:{login.sh('echo $PATH').strip()}"
    env = {"PATH": path, "RUNNER_SCRATCH": f"{login.folder}/scratch"}
    with servers.registry(login, "server") as server:
        target = f"docker://{server.host}/ada/reads:1"
        done = login.runner("push", "--no-https", f"{bob.folder}/reads.sif", target, env=env)
        assert server.requests("PUT") == 0
    assert done.returncode == REFUSED, done.stderr
    assert "unsquashfs 4.4 can be made to write outside" in done.stderr
    assert "squashfs-tools 4.5.1 or newer" in done.stderr
    assert login.sh("ls -A scratch/images/.pulls | grep -v lock || true; ls").split() == [
        *("bin", "home", "scratch", "server.log", "server.yml")
    ]


def test_a_run_folder_of_bobs_takes_no_run(login: Login, bob: Stranger, shared: str) -> None:
    bob.sh(f"mkdir -m 777 {shared}/runs")
    on_cluster(["chown", "root", shared], user="root")
    program = login.write("s.sh", "true")
    login.sh("python3 -m venv --without-pip env")
    words = ["--runtime", "none", "--controller", "none", "--image", f"{login.folder}/env"]
    done = there(login, shared, "launch", *words, "bash", program)
    ended(done, USAGE, f"{shared}/runs belongs to bob")
    assert json.loads(there(login, shared, "list", "--json").stdout) == []
