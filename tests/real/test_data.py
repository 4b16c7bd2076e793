"""Datasets on the cluster: fetched past faults, packed, bound, staged, and gone from the nodes."""

from __future__ import annotations

import json
import re
import shlex
import time

import pytest

from runners.data import dataset_catalogue

from . import servers
from .conftest import UNPACKED, Done, Login, ended, on_cluster, succeeded

pytestmark = pytest.mark.unpacked

# Says what it sees, all of it, then waits as long as it was told, or fails.
READER = """
import hashlib, json, os, sys, time
data, words = os.environ["DATA_DIR"], sys.argv[1:]
seen = {}
for folder, _, names in os.walk(data):
    for name in names:
        path = os.path.join(folder, name)
        seen[os.path.relpath(path, data)] = hashlib.sha256(open(path, "rb").read()).hexdigest()
digest = hashlib.sha256(json.dumps(sorted(seen.items())).encode()).hexdigest()
print("SEES", json.dumps([len(seen), digest, data]), flush=True)
if "wait" in words: time.sleep(300)
if "fail" in words:  # not before both have seen it: the first failure ends the other rank
    here = os.environ["OUTPUT_DIR"]
    open(os.path.join(here, "seen-" + os.uname().nodename), "w").close()
    while sum(name.startswith("seen-") for name in os.listdir(here)) < 2: time.sleep(0.1)
    time.sleep(0.5)
    sys.exit(7)
"""
SEES = re.compile(r"(\d)@(n\d) \| SEES (.*)")
WITHOUT_HOROVOD = ("-N", "2", "--controller", "none", "--no-gate", "--follow", "--all")
ODD = 'a b, c:d "e" it\'s $(touch bad) é☃'


def sees(done: Done) -> dict[str, list[object]]:
    """Return what the rank of each node saw."""
    found = {host: json.loads(said) for _, host, said in SEES.findall(done.stdout)}
    assert sorted(found) == ["n1", "n2"], done.stdout + done.stderr
    return found


def left_on_nodes() -> str:
    """Return what staging has left on the nodes."""
    names = [on_cluster(["ls", "/tmp"], node=node).stdout for node in ("n1", "n2")]
    return "".join(line for text in names for line in text.splitlines() if "runner-1000-" in line)


@pytest.fixture
def images(login: Login) -> str:
    """A folder of 300 images and more, the reader, and the folder as a file with an odd name."""
    login.write("reader.py", READER)
    done = login.runner("data", "synth", "imagenet", "im", "--samples", "250", "--size", "16")
    ended(done, 0, "wrote 250 samples for training and 50 for testing, in the format of imagenet")
    assert done.stdout == f"{login.folder}/im\n"
    assert "next: runner launch --data im TRAINER" in done.stderr
    return "im"


def test_fetch_past_faults(login: Login) -> None:
    """A cut connection, a wrong mirror; then two at once for one that is there already."""
    login.sh("mkdir www; head -c 3000000 /dev/urandom > www/noise")
    login.sh("tar czf www/a.tar.gz -C www noise")
    digest = login.sh("sha256sum www/a.tar.gz").split()[0]
    command = "env PYTHONPATH=/opt/kit python3 -u -m tests.faulty www"
    server = servers.start(login, "web", command, "sed -n 's/^port //p' web.log")
    own = {"RUNNER_SCRATCH": f"{login.folder}/scratch", "http_proxy": "http://127.0.0.1:9"}
    try:
        urls = [f"http://{server.host}/{fault}/a.tar.gz" for fault in ("missing", "wrong", "cut")]
        login.write(
            "runner.toml",
            f'[datasets.noise]\nurls = {json.dumps(urls)}\nsha256 = "{digest}"\nunpack = ["."]',
        )
        done = succeeded(login.runner("data", "fetch", "noise", "--json", env=own))
        assert "is not what it should be; removed; trying the next address" in done.stderr
        assert json.loads(done.stdout)["files"] == 1
        login.sh("cmp scratch/data/noise/noise www/noise")
        asked = server.requests("cut a.tar.gz")
        twice = "runner data fetch noise & runner data fetch noise; wait"
        both = login.run("bash", "-c", twice, env=own)
        assert both.stdout.split() == [f"{login.folder}/scratch/data/noise"] * 2
        assert server.requests("cut a.tar.gz") == asked
        written = json.loads(login.sh("cat scratch/data/noise/manifest.json"))["files"]
        assert written["noise"]["sha256"] == login.sh("sha256sum www/noise").split()[0]
        login.sh("rm -r scratch")
        mirror = f"http://{server.host}/wrong"
        done = login.runner("data", "fetch", "noise", "--mirror", mirror, env=own)
        ended(done, 81, f"wanted sha256:{digest}")
        assert login.sh("find scratch -type f").split() == ["scratch/data/.fetch/noise.lock"]
    finally:
        server.kill()


# Without the network's functions. The SHA-256 that Keras wants is said and not compared: the files
# are smaller ones than the real.
DOWNLOADS = """
import os, urllib.request
urllib.request.urlopen = urllib.request.urlretrieve = None
if "KERAS_HOME" in os.environ:
    import keras
    from keras.src.datasets import imdb, mnist
    def plain(fname, origin, file_hash, get=mnist.get_file):
        print("wants", fname, file_hash)
        return get(fname, origin=origin)
    imdb.get_file = mnist.get_file = plain
    read = getattr(keras.datasets, os.environ["DATASET"])
    (x, _), (y, _) = read.load_data()
else:
    from torchvision import datasets
    x = datasets.FashionMNIST("/data", train=True, download=True)
    y = datasets.FashionMNIST("/data", train=False, download=True)
print("samples", len(x), len(y))
"""
# Small files of the names and forms of the real ones.
NPZ = """
import numpy as np
draw = np.random.default_rng(1)
labels = {"y_train": draw.integers(0, 2, 40), "y_test": draw.integers(0, 2, 8)}
shapes = {"x_train": 40, "x_test": 8}
pictures = {name: np.zeros((count, 28, 28), np.uint8) for name, count in shapes.items()}
np.savez("www/mnist.npz", **pictures, **labels)
words = {}
for name, count in shapes.items():
    words[name] = np.empty(count, object)
    words[name][:] = [list(map(int, draw.integers(1, 99, 5 + k))) for k in range(count)]
np.savez("www/imdb.npz", **words, **labels)
"""
FETCHED = ("fashion-mnist", "mnist-npz", "imdb")


def like_the_shipped(login: Login, host: str) -> str:
    """Return a runner.toml in which the datasets' own files of `www` lie where the real ones do."""
    lines = []
    for name in FETCHED:
        for source in dataset_catalogue.shipped()[name].files:
            sha = login.sh(f"sha256sum www/{source.name}").split()[0]
            lines += [f"[[datasets.{name}.files]]", f"urls = ['http://{host}/ok/{source.name}']"]
            lines += [f"sha256 = '{sha}'", f"keep = {list(source.keep)}"]
            lines += [f"unpack = {list(source.unpack)}"]
    return "\n".join(lines)


@pytest.fixture
def fetched(login: Login) -> str:
    """The folder of datasets that were fetched from a server of the test's own."""
    login.runner("data", "synth", "mnist", "www", "--samples", "50")
    login.sh("cd www && gzip *-ubyte")
    login.sh(f"apptainer exec {UNPACKED} python3 {login.write('npz.py', NPZ)}")
    server = servers.start(
        login, "web", "env PYTHONPATH=/opt/kit python3 -u -m tests.faulty www",
        "sed -n 's/^port //p' web.log",
    )  # fmt: skip
    own = {"RUNNER_SCRATCH": f"{login.folder}/scratch"}
    try:
        login.write("runner.toml", like_the_shipped(login, server.host))
        for name in FETCHED:
            succeeded(login.runner("data", "fetch", name, env=own))
    finally:
        server.kill()
    return f"{login.folder}/scratch/data"


ALONE = ("-N", "1", *WITHOUT_HOROVOD[2:])


def test_scripts_that_download_find_what_was_fetched(login: Login, fetched: str) -> None:
    """torchvision's datasets and Keras's, of files that lie where those of a shipped one do."""
    script = login.write("loads.py", DOWNLOADS)
    by_torch = login.launch(*ALONE, "--data", f"{fetched}/fashion-mnist", script)
    assert by_torch.stdout.count("samples 50 10") == 1, by_torch.stdout + by_torch.stderr
    for name, dataset, said in (
        ("fashion-mnist", "fashion_mnist", "samples 50 10"),
        ("mnist-npz", "mnist", "samples 40 8"),
        ("imdb", "imdb", "samples 40 8"),
    ):
        keras = ("--bind", f"{fetched}/{name}:/keras", "--env", "KERAS_HOME=/keras")
        done = login.launch(*ALONE, *keras, "--env", f"DATASET={dataset}", script)
        assert done.stdout.count(said) == 1, done.stdout + done.stderr
        if name != "fashion-mnist":  # of which Keras compares nothing
            (source,) = dataset_catalogue.shipped()[name].files
            assert f"wants {source.name} {source.sha256}" in done.stdout


def test_trainers_read_what_was_fetched(login: Login, fetched: str) -> None:
    for name, trainer, said in (
        ("mnist-npz", "torch_mnist", "40 to learn from, 8 to test with"),
        ("fashion-mnist", "keras_mnist", "50 to learn from, 10 to test with"),
    ):
        words = ("--data", f"{fetched}/{name}", trainer, "--", "--epochs", "1", "--batch-size", "4")
        done = succeeded(login.launch("-N", "2", "--follow", "--all", *words))
        assert f"{trainer}: /data, {said}, 2 ranks" in done.stdout


def test_packed_and_bound_by_odd_names(login: Login, images: str) -> None:
    """The ranks see in the file what is in the folder; packing again gives the same file."""
    for name in (ODD, "again.sqsh"):
        done = succeeded(login.runner("data", "pack", images, "-o", name))
        login.sh(f"touch {images}/train/*")
    login.sh(f"cmp {shlex.quote(ODD)} again.sqsh")
    (packed,) = json.loads(login.sh("cat again.sqsh.manifest.json"))["files"].values()
    assert login.sh("sha256sum again.sqsh").split()[0] == packed["sha256"]
    login.sh("cp -r im 'x,y:z'")
    data = ["--data", f"odd={ODD}", "--data", "folder=x,y:z"]
    done = succeeded(login.launch(*WITHOUT_HOROVOD, *data, "reader.py"))
    for count, _, place in sees(done).values():
        assert (count, place) == (600, "/data")
    plain = login.launch(*WITHOUT_HOROVOD, "--data", images, "reader.py")
    packed = login.launch(*WITHOUT_HOROVOD, "--data", f"im={ODD}", "reader.py")
    same = [[said[:2] for said in sees(done).values()] for done in (plain, packed)]
    assert same[0] == same[1]
    assert {str(said[2]) for said in sees(packed).values()} == {"/data/im"}
    assert "bad" not in login.sh("ls").split()


def test_a_cut_file_is_refused_before_the_queue(login: Login, images: str) -> None:
    assert login.runner("data", "pack", images).returncode == 0
    login.sh("head -c 90000 im.sqsh > cut.sqsh")
    for words, message in (
        (["cut.sqsh"], "is truncated"),
        (["reader.py"], "is not a squashfs file"),
        (["in"], "did you mean im"),
    ):
        done = login.launch("--data", *words, "reader.py")
        assert done.returncode in (2, 80), done.stderr
        assert message in done.stderr
    assert login.runs() == []


def test_staged_on_two_nodes_and_gone_after_a_failure(login: Login, images: str) -> None:
    """A folder by one reader on each node, a file by sbcast; the ranks see the same as before."""
    assert login.runner("data", "pack", images).returncode == 0
    data = ["--data", "folder=im", "--data", "file=im.sqsh", "--stage-data", "node-local"]
    done = ended(login.launch(*WITHOUT_HOROVOD, *data, "reader.py", "--", "fail"), 7)
    assert {said[0] for said in sees(done).values()} == {600}
    for node in ("n1", "n2"):
        assert re.search(rf"data on {node}: folder, .* in 300 files", done.stdout), done.stdout
        assert re.search(rf"data on {node}: file.sqsh, sent, ", done.stdout)
    assert "sbcast --force" in login.sh("cat runs/reader-1/job.sbatch")
    assert left_on_nodes() == ""


def test_a_cancelled_job_leaves_nothing(login: Login, images: str) -> None:
    data = ["--data", images, "--stage-data", "node-local", "-N", "2", "--no-gate"]
    job = login.launch(*data, "--parsable", "reader.py", "--", "wait").stdout.strip()
    deadline = time.monotonic() + 60
    while login.sh("cat runs/reader-1/logs/job.log 2>/dev/null || true").count("SEES") < 2:
        assert time.monotonic() < deadline, login.sh("cat runs/reader-1/logs/job.log")
        time.sleep(0.2)
    assert f"runner-1000-{job}." in left_on_nodes()
    assert login.runner("cancel", job).returncode == 0
    assert login.runner("wait", job).returncode == 86
    while left_on_nodes() and time.monotonic() < deadline:
        time.sleep(0.2)
    assert left_on_nodes() == ""


def test_no_room_on_one_node(login: Login, images: str) -> None:
    """The message has the node's name, the exit code says what it was, and nothing stays."""
    tiny = "mkdir -p /mnt/tiny; mount -t tmpfs -o size=64M,mode=1777 none /mnt/tiny"
    roomy = "mkdir -p /mnt/tiny; mount -t tmpfs -o size=512M,mode=1777 none /mnt/tiny"
    try:
        for node, mount in (("n1", roomy), ("n2", tiny)):
            assert on_cluster(["bash", "-c", mount], node=node, user="root").returncode == 0
        data = ["--data", images, "--stage-data", "node-local"]
        here = {"TMPDIR": "/mnt/tiny"}
        done = ended(login.launch(*WITHOUT_HOROVOD, *data, "reader.py", env=here), 92)
        assert "data on n2: no space in /mnt/tiny: " in done.stdout
        assert "SEES" not in done.stdout
        for node in ("n1", "n2"):
            assert on_cluster(["ls", "/mnt/tiny"], node=node).stdout == ""
    finally:
        for node in ("n1", "n2"):
            on_cluster(["umount", "/mnt/tiny"], node=node, user="root")


def test_staged_without_a_scheduler(login: Login, images: str) -> None:
    alone = ["--scheduler", "local", "--stage-data", "node-local"]
    done = succeeded(login.launch(*alone, "--data", images, "reader.py"))
    assert "SEES [300," in done.stdout
    assert login.sh("ls /tmp | grep runner- || true") == ""


@pytest.mark.slow
def test_a_trainer_learns_from_made_up_mnist_in_a_file(login: Login) -> None:
    assert login.runner("data", "synth", "mnist", "m", "--samples", "320").returncode == 0
    assert login.runner("data", "pack", "m").returncode == 0
    words = ["--data", "m.sqsh", "--stage-data", "auto", "-N", "2", "--wait", "-v", "torch_mnist"]
    done = succeeded(login.launch(*words, "--", "--epochs", "1"))
    assert "data read from: where it lies (0.0 GB in few files" in done.stderr
    assert login.told("result")["world_size"] == 2
