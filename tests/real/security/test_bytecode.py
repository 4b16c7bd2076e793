"""Another user plants bytecode where a job's Python would look for it, under names he can guess.

TensorFlow's AutoGraph writes its functions into TMPDIR and imports them: he waits for the file in
/tmp, and puts bytecode into the `__pycache__` beside it, a folder of his, before Python reads it.
"""

from __future__ import annotations

import pytest

from tests.real.conftest import IMAGE, Login, on_cluster, succeeded

from .conftest import Stranger, start

NODES = ("n1", "n2")
# Made with the image's Python. Bytecode by hash, unchecked: Python compares it with no source.
PLANT = r"""
import ctypes, importlib.util, marshal, os, sys
watched, proof = sys.argv[1:]
cache = os.path.join(watched, "__pycache__")
os.makedirs(cache, exist_ok=True)
os.chmod(cache, 0o777)
code = f"import os\nopen({proof!r} + '.' + str(os.getpid()), 'w').close()\n"
MOVED_TO, CLOSE_WRITE, CREATE = 0x80, 0x8, 0x100
pyc = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8)
libc = ctypes.CDLL(None)
events = libc.inotify_init()
assert libc.inotify_add_watch(events, os.fsencode(watched), MOVED_TO | CLOSE_WRITE | CREATE) > 0
print("READY", flush=True)
while True:
    data = os.read(events, 65536)
    while data:
        size = int.from_bytes(data[12:16], sys.byteorder)
        name, data = data[16:16 + size].rstrip(b"\0").decode(), data[16 + size:]
        if not name.endswith(".py"):
            continue
        planted = compile(code, os.path.join(watched, name), "exec")
        target = os.path.join(cache, f"{name[:-3]}.{sys.implementation.cache_tag}.pyc")
        part = f"{target}.{os.uname().nodename}"  # a shared folder has one of each node
        with open(part, "wb") as file:
            file.write(pyc + marshal.dumps(planted))
        os.chmod(part, 0o644)
        os.replace(part, target)
        print("PLANTED", name, flush=True)
"""
# What AutoGraph does, without TensorFlow; the second file is the user's own, in a shared folder.
IMPORTS = """
import importlib.util, os, sys, tempfile, time
def load(path):
    spec = importlib.util.spec_from_file_location("generated", path)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
for folder in sys.argv[1:] or [None]:
    for _ in range(3):
        with tempfile.NamedTemporaryFile("w", suffix=".py", dir=folder, delete=False) as file:
            file.write("print('SOURCE')")
        time.sleep(1)
        load(file.name)
"""
PROOF = "/tmp/ran-as-ada"
ONE = ("--controller", "none", "--no-gate")


def watch(bob: Stranger, folder: str = "/tmp") -> None:
    """Let bob be first on each node; what runs as ada leaves a file in its /tmp."""
    bob.write("plant.py", PLANT)
    for node in NODES:
        command = f"apptainer exec --bind {folder} {IMAGE} python3 plant.py {folder} {PROOF}"
        bob.start(f"exec {command} > planted-{node} 2>&1", node)
        bob.sh(f"timeout 60 sh -c 'until grep -q READY planted-{node}; do sleep 0.1; done'", node)
        bob.sh("test ! -e /tmp/__pycache__ || test -O /tmp/__pycache__", node)


def left(node: str) -> list[str]:
    """Return what of ada's is in a node's /tmp."""
    found = ["find", "/tmp", "-mindepth", "1", "-user", "ada"]
    return on_cluster(found, user="root", node=node).stdout.split()


@pytest.mark.parametrize(
    ("trainer", "words"),
    [
        ("tf_mnist", ("--controller", "gloo")),
        pytest.param("keras_mnist", ("--controller", "mpi"), marks=pytest.mark.slow),
        pytest.param("tf_mnist --exchange mirrored", (), marks=pytest.mark.slow),
        pytest.param("tf_resnet", ("--controller", "gloo"), marks=pytest.mark.slow),
    ],
)
def test_a_trainer_of_tensorflow_runs_no_bytecode_of_bobs(
    login: Login, bob: Stranger, trainer: str, words: tuple[str, ...]
) -> None:
    before = {node: left(node) for node in NODES}
    watch(bob)
    name, *more = trainer.split()
    more += ("--max-steps", "2", "--synthetic") if name == "tf_resnet" else ("--epochs", "1")
    job = start(login, "--nodes", "2", *words, name, "--", *more)
    assert job.end() == 0, job.log
    for node in NODES:
        assert set(left(node)) <= set(before[node]), bob.sh(f"cat planted-{node}")
        assert "PLANTED" not in bob.sh(f"cat planted-{node}")


@pytest.mark.parametrize("launcher", ["srun", "torchrun"])
def test_nor_does_a_script_that_imports_what_it_writes(
    login: Login, bob: Stranger, launcher: str
) -> None:
    """Neither from its temporary folder nor from a shared one."""
    shared = bob.sh("d=$(mktemp -d /scratch/shared/XXXXXX); chmod 1777 $d; echo $d").strip()
    watch(bob, shared)
    script = login.write("imports.py", IMPORTS)
    words = ("--bind", shared, "--launcher", launcher, script, "--", "/tmp", shared)
    job = start(login, "--nodes", "2", *ONE, *words)
    assert job.end() == 0, job.log
    assert job.log.count("| SOURCE") == 12
    assert "PLANTED" in bob.sh("cat planted-n1"), "bob was not there"
    for node in NODES:
        there = left(node)
        on_cluster(["rm", "-rf", *there], user="root", node=node)  # the script's own files
        assert not [path for path in there if path.startswith(PROOF)]
    on_cluster(["rm", "-rf", shared], user="root")


# Starts a Python once the command around it has ended, and the job's own folder is gone: with the
# path of bytecode that it was given, then with one by that folder's name.
OUTLIVES = """
until [ -e attack ]; do sleep 0.1; done
python3 -c pass; touch first
until [ -e control ]; do sleep 0.1; done
PYTHONPYCACHEPREFIX=$TMPDIR/pycache python3 -c pass; touch second
"""
ENDS = """
echo "$TMPDIR ${PYTHONPYCACHEPREFIX##*/}" > told
setsid -f bash outlives.sh > /dev/null 2>&1
until [ -e go ]; do sleep 0.1; done
"""
# What each Python imports first, when there is no open() yet, wherever it could be looked for.
AGAIN = r"""
import encodings.aliases, importlib.util, marshal, os, sys
folder, name, proof = sys.argv[1:]
source = encodings.aliases.__file__
text = open(source).read() + f"\nimport posix; posix.mkdir({proof!r})\n"
pyc = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8)
for sys.pycache_prefix in (f"{folder}/pycache", f"{folder}/{name}"):
    target = importlib.util.cache_from_source(source)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target, "wb") as file:
        file.write(pyc + marshal.dumps(compile(text, source, "exec")))
"""


def test_who_makes_the_folder_again_is_not_heard_by_what_outlived_it(
    login: Login, bob: Stranger
) -> None:
    """Bob even knows the secret name, which was in the folder that only ada could read."""
    proof = f"{login.folder}/ran"
    login.write("outlives.sh", OUTLIVES)
    login.write("ends.sh", ENDS)
    login.sh("mkdir -p run/code; cp -r /opt/kit/runners/injob run/code/injob")
    login.sh("cp -r /opt/kit/runners/contract run/code/injob/contract")
    login.sh("setsid -f python3 run/code/injob around bash ends.sh > log 2>&1")
    login.sh("timeout 60 sh -c 'until [ -s told ]; do sleep 0.1; done' || { cat log; exit 1; }")
    folder, name = login.sh("cat told").split()
    assert folder in bob.sh("ls -d /tmp/runner-*").split()
    assert bob.run("mkdir", folder).returncode != 0
    login.sh(f"touch go; timeout 60 sh -c 'while [ -e {folder} ]; do sleep 0.1; done'")
    succeeded(bob.python(AGAIN, folder, name, proof))
    login.sh("touch attack; timeout 60 sh -c 'until [ -e first ]; do sleep 0.1; done'")
    assert login.run("test", "-e", "ran").returncode == 1
    login.sh("touch control; timeout 60 sh -c 'until [ -e second ]; do sleep 0.1; done'")
    login.sh("test -d ran")
