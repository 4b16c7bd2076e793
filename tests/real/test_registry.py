"""Pull and push against a real registry: once, by digest, whole or not at all."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterator

import pytest

from . import servers
from .conftest import Login, ended, on_cluster, succeeded
from .desk import (
    FAULT,
    NOT_VERIFIED,
    REFUSED,
    USAGE,
    ZEROS,
    Desk,
    desk,
    digest_in,
    digest_of,
    registry,
    shop,
)
from .servers import PASSWORD, USER, Server

__all__ = ["desk", "registry", "shop"]  # pytest looks for fixtures among a module's names
SEEN = "seen-by-the-watch"  # a word for it to find, as proof that it looks
HALF = 4_000_000  # bytes; the image with Python has more than twice as many


def test_a_round_trip_keeps_every_byte(desk: Desk, shop: Login, registry: Server) -> None:
    facts = desk.pull(f"oras://{registry.host}/team/train:v1")
    digest = digest_in(shop, "python.sif")
    assert facts["digest"] == digest == digest_of(desk, facts["path"])
    assert facts["path"].endswith(f"/scratch/images/{digest.replace(':', '-')}.sif")
    assert desk.sh("readlink scratch/images/train_v1.sif").strip() == facts["path"].split("/")[-1]
    assert desk.sh("cd scratch/images; apptainer exec train_v1.sif python3 -c 'print(6 * 7)'")
    recorded = desk.sh("cat images.lock")
    assert f'digest = "{digest}"' in recorded
    assert f'source = "oras://{registry.host}/team/train:v1"' in recorded


def test_no_runtime_is_needed_for_a_sif(desk: Desk, registry: Server) -> None:
    desk.sh("mkdir bin; ln -s /opt/runner/bin/runner bin/")
    facts = desk.pull(f"oras://{registry.host}/team/train:v1", env={"PATH": f"{desk.folder}/bin"})
    assert desk.sh(f"wc -c < {facts['path']}").strip() == str(facts["size"])
    sif = f"{facts['path']}"
    succeeded(
        desk.runner(
            *("push", sif, f"oras://{registry.host}/team/train:again"),
            env={"PATH": f"{desk.folder}/bin"},
        )
    )
    uri = f"docker://{registry.host}/team/again:v1"
    done = desk.runner("push", sif, uri, env={"PATH": f"{desk.folder}/bin"})
    ended(done, REFUSED, "there is no container runtime on this machine")


def test_a_tag_is_looked_up_once_and_again_when_asked(
    desk: Desk, shop: Login, registry: Server
) -> None:
    uri = f"oras://{registry.host}/team/moves:latest"
    assert shop.runner("push", "--no-https", "python.sif", uri).returncode == 0
    first = desk.pull(uri)
    assert shop.runner("push", "--no-https", "other.sif", uri).returncode == 0
    asked = registry.requests("GET")
    assert desk.pull(uri)["digest"] == first["digest"]
    assert registry.requests("GET") == asked, "a locked reference needs no registry"
    done = desk.runner("pull", "--update", uri)
    assert f"moves_latest.sif was {first['digest']} until now" in done.stderr
    assert desk.pull(uri)["digest"] == digest_in(shop, "other.sif")
    # The tag has moved, but what was locked can still be had.
    desk.sh(f"sed -i 's/{digest_in(shop, 'other.sif')}/{first['digest']}/' images.lock")
    desk.sh(f"sed -i 's/^manifest.*/manifest = \"{first['manifest']}\"/' images.lock")
    desk.sh("rm -rf scratch")
    assert desk.pull(uri)["digest"] == first["digest"]


def test_ten_pulls_at_once_download_once(desk: Desk, shop: Login, registry: Server) -> None:
    blob = digest_in(shop, "python.sif")
    before = registry.requests(f'"GET /v2/team/train/blobs/{blob}')
    one = f"runner pull --no-https --name $n oras://{registry.host}/team/train:v1"
    desk.sh(
        f"export RUNNER_SCRATCH=$PWD/scratch; mkdir a b; for n in 1 2 3 4 5 6 7 8 9 10; do"
        f" (cd $([ $n -gt 5 ] && echo a || echo b) && {one} || touch failed) & done; wait"
    )
    assert registry.requests(f'"GET /v2/team/train/blobs/{blob}') == before + 1
    assert len(desk.sh("find scratch -name 'sha256-*.sif'").split()) == 1
    assert desk.sh("grep -h ^name a/images.lock b/images.lock | wc -l").strip() == "10"
    assert desk.sh("find . -name failed") == ""


@pytest.mark.parametrize("end", ["KILL", "INT", "registry"])
def test_an_interrupted_pull_leaves_nothing_whole(
    desk: Desk, shop: Login, registry: Server, end: str
) -> None:
    with servers.relay(shop, registry, HALF) as relay:
        uri = f"oras://{relay.host}/team/train:v1"
        # A shell lets what it starts in the background ignore SIGINT.
        start = f"env --default-signal=INT runner pull --no-https {uri}"
        pid = desk.sh(f"export RUNNER_SCRATCH=$PWD/scratch; {start} > pull.log 2>&1 & echo $!")
        pid = pid.strip()
        part = "find scratch/images/.pulls -name image.sif -size +2M 2>/dev/null | grep ."
        desk.sh(f"for i in $(seq 200); do {part} && exit; sleep 0.05; done; cat pull.log; false")
        if end == "registry":
            relay.kill()
        else:
            desk.sh(f"kill -{end} {pid}")
        desk.sh(f"for i in $(seq 100); do [ -e /proc/{pid} ] || exit 0; sleep 0.1; done; false")
        assert (
            desk.sh("find scratch/images -maxdepth 1 -name '*.sif'; ls images.lock || true") == ""
        )
        left = desk.sh("find scratch/images/.pulls -name image.sif")
        assert bool(left) == (end == "KILL"), "only a killed pull cannot tidy up"
        said = desk.sh("cat pull.log")
        assert "Traceback" not in said
        if end == "registry":
            assert "stopped after" in said
    facts = desk.pull(f"oras://{registry.host}/team/train:v1")
    assert facts["digest"] == digest_in(shop, "python.sif")
    assert desk.sh("find scratch/images/.pulls -mindepth 1 ! -name '*.lock'") == ""


def test_a_cut_connection_is_taken_up_again(desk: Desk, shop: Login, registry: Server) -> None:
    with servers.relay(shop, registry, HALF) as relay:
        shop.sh("touch relay/cut")
        facts = desk.pull(f"oras://{relay.host}/team/train:v1")
    assert facts["digest"] == digest_of(desk, facts["path"]) == digest_in(shop, "python.sif")
    parts = f'/blobs/{facts["digest"]} HTTP/1.1" 206'
    assert registry.requests(parts) >= facts["size"] // HALF, "the rest, not all of it again"


def test_a_wrong_digest_is_refused(desk: Desk, shop: Login, registry: Server) -> None:
    uri = f"oras://{registry.host}/team/train:v1"
    said = desk.refused(NOT_VERIFIED, uri, "--digest", ZEROS)
    assert f"wanted {ZEROS}" in said
    # What an attacker or a bad disk makes of it: the registry serves other bytes than it names.
    other = f"oras://{registry.host}/team/altered:v1"
    assert shop.runner("push", "--no-https", "other.sif", other).returncode == 0
    digest = digest_in(shop, "other.sif").partition(":")[2]
    blob = f"registry/docker/registry/v2/blobs/sha256/{digest[:2]}/{digest}/data"
    shop.sh(f"printf X | dd of={blob} bs=1 seek=200000 conv=notrunc status=none")
    try:
        assert "is not what it should be" in desk.refused(NOT_VERIFIED, other)
    finally:
        shop.sh(f"cp other.sif {blob}")
    assert desk.pull(other, "--digest", f"sha256:{digest}")["digest"] == f"sha256:{digest}"


@pytest.fixture
def locked_registry(shop: Login) -> Iterator[Server]:
    """A registry that wants a password."""
    shop.sh(f"htpasswd -Bbn {USER} {PASSWORD} > htpasswd")
    auth = f"auth: {{htpasswd: {{realm: r, path: {shop.folder}/htpasswd}}}}"
    with servers.registry(shop, "locked", f"http: {{addr: '127.0.0.1:0'}}\n{auth}") as server:
        yield server
        on_cluster(["apptainer", "registry", "logout", f"docker://{server.host}"])


@pytest.fixture
def watched(desk: Desk, locked_registry: Server) -> Iterator[Server]:
    """Look at every process's words, again and again; in the end nothing may hold the password.

    The files `secret` and `who` are the test's own, so that the password is in none of its words.
    """
    desk.write("secret", PASSWORD)
    desk.write("who", f"APPTAINER_DOCKER_USERNAME={USER} APPTAINER_DOCKER_PASSWORD={PASSWORD}")
    desk.sh(f"printf '{PASSWORD}\n{SEEN}' > words; echo wrong > wrong; touch watching")
    # cat fails when a process has ended meanwhile.
    look = "while [ -e watching ]; do cat /proc/[0-9]*/cmdline || sleep 0.01; done | tr '\\0' '\\n'"
    desk.sh(f"({look} | grep -aF -f words > seen; touch over) > /dev/null 2>&1 & true")
    desk.run("bash", "-c", "sleep 0.5; true", SEEN)
    yield locked_registry
    desk.sh("rm watching; for i in $(seq 50); do [ ! -e over ] || break; sleep 0.1; done")
    assert set(desk.sh("cat seen").split()) == {SEEN}, "the watch sees, but no password"
    found = desk.sh("grep -rlF -f words . || true").split()
    assert sorted(found) == ["./secret", "./seen", "./who", "./words"]


def test_a_password_opens_and_is_seen_nowhere(desk: Desk, shop: Login, watched: Server) -> None:
    host = watched.host
    uri, image = f"oras://{host}/team/train:v1", f"{shop.folder}/python.sif"
    said = desk.refused(REFUSED, uri)
    assert "refuses access" in said
    assert f"apptainer registry login --username NAME docker://{host}" in said

    def known(*words: str) -> None:
        """Run `runner` with the variables of the file `who`."""
        line = shlex.join(["runner", *words])
        ours = "RUNNER_SCRATCH=$PWD/scratch APPTAINER_NOHTTPS=1"
        desk.sh(f"export {ours} $(< who); {line}")

    known("push", image, uri)
    known("pull", uri)
    desk.sh("rm -r scratch images.lock")
    known("launch", "--image", uri, "-J", "x", "--wait", desk.write("train.py", "pass"))
    desk.sh(f"apptainer registry login -u {USER} --password-stdin docker://{host} < secret")
    assert desk.pull("--update", uri)["digest"] == digest_in(shop, "python.sif")
    desk.sh(f"apptainer registry logout docker://{host}")
    desk.refused(REFUSED, "--update", uri)


def test_a_launch_pulls_before_it_submits(desk: Desk, shop: Login, registry: Server) -> None:
    uri = f"oras://{registry.host}/team/train:v1"
    trainer = desk.write("train.py", "print('trained')")
    # Eight ranks in an image without libgcc: each ends well though it has threads.
    words = ["launch", "--image", uri, "-N", "2", "--ntasks-per-node", "4", "--no-gate", trainer]
    done = ended(desk.runner(*words[:-1], "--dry-run", trainer), 0, f"would pull {uri}")
    assert desk.sh("find scratch images.lock 2>/dev/null || true") == ""
    printed = done.stdout
    assert digest_in(shop, "python.sif").replace(":", "-") in printed
    assert f"(from {uri})" in printed
    done = succeeded(desk.runner(*words[:-1], "--follow", "--all", trainer))
    assert done.stdout.count("trained") == 8
    script = desk.sh("cat runs/train-1/job.sbatch")
    assert script == printed, "a dry run shows what is submitted"
    assert "://" not in "".join(line for line in script.splitlines() if line[:1] != "#")
    assert registry.requests(digest_in(shop, "python.sif") + ' HTTP/1.1" 206') > 0
    name = ["launch", "--image", "train_v1.sif", "--dry-run", trainer]
    assert digest_in(shop, "python.sif").replace(":", "-") in desk.runner(*name).stdout


def test_prune_removes_what_nothing_needs(desk: Desk, shop: Login, registry: Server) -> None:
    uri = f"oras://{registry.host}/team/train:v1"
    digest = desk.pull(uri)["digest"]
    desk.sh(f"cp {shop.folder}/other.sif scratch/images/built.sif; echo x > scratch/images/notes")
    listed = {row["name"]: row for row in desk.told("images")}
    assert sorted(listed) == ["built.sif", "train_v1.sif"]
    assert listed["train_v1.sif"]["digest"] == digest
    assert listed["train_v1.sif"]["source"] == uri
    assert desk.runner("images", "prune").stdout == "", "a name points to it"
    trainer = desk.write("train.py", "pass")
    held = ["launch", "--image", uri, "--sbatch-arg=--hold", "--parsable", trainer]
    job = desk.runner(*held).stdout.strip()
    desk.sh("rm scratch/images/train_v1.sif")
    assert desk.runner("images", "prune").stdout == "", "images.lock and a job need it"
    desk.sh("rm images.lock")
    assert desk.runner("images", "prune").stdout == "", "a job needs it"
    assert desk.runner("cancel", job).returncode == 0
    assert desk.runner("images", "prune", "--dry-run").stdout == f"would remove {digest}\n"
    done = desk.runner("images", "prune")
    assert done.stdout == f"removed {digest}\n"
    assert re.search(r"freed \d+\.\d MB", done.stderr)
    assert desk.sh("cd scratch/images; ls").split() == ["built.sif", "notes"]


@pytest.mark.parametrize(
    ("reference", "code", "expected"),
    [
        ("oras://{host}/team/train:v2", USAGE, "did you mean v1?"),
        ("oras://{host}/team/train@" + ZEROS, USAGE, "is not there"),
        ("oras://{host}/team/nothing:v1", USAGE, "is not there"),
        ("oras://127.0.0.1:9/team/train:v1", FAULT, "127.0.0.1:9 does not answer"),
        ("docker://127.0.0.1:9/team/train:v1", FAULT, "127.0.0.1:9 does not answer"),
        (
            "oras://no.such.host.invalid/team/train:v1",
            FAULT,
            "the host no.such.host.invalid does not exist",
        ),
        ("docker://{host}/team/train:v1", REFUSED, "try: runner pull oras://"),
        ("library://ada/team/train:v1", USAGE, "apptainer pull library://ada/team/train:v1"),
        ("https://{host}/x.sif", USAGE, "runner pulls nothing from https://"),
        ("oras://ada:secret@{host}/team/train:v1", USAGE, "before the @"),
        ("nothing.sif", USAGE, "nothing.sif is no file here"),
        ("orsa://{host}/team/train:v1", USAGE, "did you mean oras?"),
    ],
)
def test_what_cannot_be_had(
    desk: Desk, registry: Server, reference: str, code: int, expected: str
) -> None:
    assert expected in desk.refused(code, reference.format(host=registry.host))


def test_a_name_that_is_taken_stays(desk: Desk, registry: Server) -> None:
    desk.sh("mkdir -p scratch/images; echo mine > scratch/images/train_v1.sif")
    said = desk.refused(REFUSED, f"oras://{registry.host}/team/train:v1")
    assert "--name OTHER" in said


# What `runner build` leaves beside an image.
RECORD = (
    "from pathlib import Path; from containers import build_record; "
    "build_record.write(Path('scratch/images/built.sif'), 'key', '{digest}')"
)


def test_an_image_is_launched_alike_however_it_came(
    desk: Desk, shop: Login, registry: Server
) -> None:
    """Pulled, built into the images folder, or named by a path."""
    desk.write("train.py", "print('trained')\n")
    digest = desk.pull(f"oras://{registry.host}/team/train:v1", "--name", "pulled.sif")["digest"]
    desk.sh(f"cp {shop.folder}/python.sif scratch/images/built.sif")
    desk.sh(shlex.join(["/opt/runner/bin/python", "-c", RECORD.format(digest=digest)]))
    path = "scratch/images/built.sif"
    scripts = []
    for image in ("pulled.sif", "built.sif", path, f"{desk.folder}/{path}"):
        launch = ["launch", "--image", image, "--nodes", "2", "--dry-run", "train.py"]
        done = succeeded(desk.runner(*launch))
        # Where it came from is told of the pulled one.
        text = re.sub(r"(?m)^# image: .*\n", "", done.stdout)
        scripts.append(re.sub(r"\S*\b(sha256-[0-9a-f]+|pulled|built)\.sif", "IMAGE", text))
    assert "IMAGE" in scripts[0]
    assert "is no longer the file that was launched" in scripts[0]
    first, *others = scripts
    assert [script == first for script in others] == [True] * 3, changed(first, others)


def changed(one: str, others: list[str]) -> str:
    """The lines of scripts that differ from the first one's."""
    return "\n".join(
        "\n".join(difflib.unified_diff(one.split("\n"), x.split("\n"), n=0)) for x in others
    )
