"""Images made from others, and what a site has of its own: pip's configuration, an authority."""

from __future__ import annotations

import shlex

import pytest

from .conftest import ended, succeeded
from .servers import registry
from .yard import Yard, yard

__all__ = ["yard"]

# alpha needs beta; gamma needs a pip that the image does not have.
WHEELS = """
mkdir -p "site's wheels"
python3 /opt/kit/tests/real/make_wheel.py "site's wheels" \
    'alpha==1.0:beta>=2' beta==1.0 beta==2.1 'gamma==1.0:pip>=99' pip==99.0 \
    'delta==1.0::raise OSError("torn")'
"""
# A word that must not be found in the image afterwards, in places that a site may name.
MARK = "zorkmid"


def add(yard: Yard, wanted: str, *words: str, **env: str) -> tuple[int, str]:
    yard.write("extra.txt", wanted)
    command = ["--from", "python.sif", "--requirements", "extra.txt", "-o", "mine.sif"]
    done = yard.build(*command, *words, env=env)
    return done.returncode, done.stderr


def traces(yard: Yard, image: str, *words: str) -> str:
    """Return where words are found in an image: files, their names, labels, definition."""
    seek = shlex.join(["grep", "-aF", *(part for word in words for part in ("-e", word))])
    return yard.sh(f"""
        rm -rf tree; apptainer build --sandbox tree {image} > /dev/null 2>&1
        test -e tree/.singularity.d/labels.json
        {seek} -rl tree || true
        (find tree; apptainer inspect --all {image}; apptainer sif dump 1 {image}) | {seek} || true
    """)


def test_packages_are_added_with_what_they_need(yard: Yard) -> None:
    yard.sh(WHEELS)
    yard.write("more.txt", "alpha")
    code, said = add(yard, "-r more.txt", "--wheelhouse", "site's wheels")
    assert code == 0, said
    program = "import alpha, beta; print(beta.VERSION, open(beta.__cached__, 'rb').read(8)[4])"
    # 1: bytecode with a hash that nobody checks (PEP 552)
    assert yard.sh(f'apptainer exec mine.sif python3 -c "{program}"') == "2.1 1\n"
    labels = yard.sh("apptainer inspect mine.sif")
    digest = yard.sh("sha256sum python.sif").split()[0]
    assert "mine: yes" in labels
    assert f"org.opencontainers.image.base.digest: sha256:{digest}" in labels
    assert "org.opencontainers.image.base.name: python.sif" in labels
    assert yard.left() == ""


def test_the_machines_own_pip_configuration_is_used_and_stays_outside(yard: Yard) -> None:
    yard.sh(f"{WHEELS} mkdir -p {MARK}/simple/beta {MARK}/files; cp site*/beta-1.0* {MARK}/files/")
    link = "<a href='../../files/beta-1.0-py3-none-any.whl'>beta-1.0-py3-none-any.whl</a>"
    yard.write(f"{MARK}/simple/beta/index.html", link)
    index = f"file://{yard.folder}/{MARK}/simple"
    settings = f"[global]\nindex-url = {index}\n[install]\ntrusted-host = {MARK}.example\n"
    yard.write("pip.conf", settings)
    proxy = f"http://{MARK}.example:1"
    code, said = add(yard, "beta", PIP_CONFIG_FILE=f"{yard.folder}/pip.conf", https_proxy=proxy)
    assert code == 0, said
    assert (
        yard.sh("apptainer exec mine.sif python3 -c 'import beta; print(beta.VERSION)'") == "1.0\n"
    )
    assert traces(yard, "mine.sif", MARK) == ""


@pytest.mark.parametrize(
    ("wanted", "code", "message"),
    [
        ("gamma", 80, "without replacing what the image has:\n  pip=="),
        ("absent==3", 1, "no file for absent==3 in "),
        ("pip", 80, "nothing to add"),
        ("alpha==", 2, "pip cannot read "),
        ("delta", 1, "delta cannot be imported in the image: OSError: torn"),
    ],
)
def test_what_cannot_be_added(yard: Yard, wanted: str, code: int, message: str) -> None:
    yard.sh(f"{WHEELS} rm -f mine.sif; echo old > mine.sif")
    found, said = add(yard, wanted, "--wheelhouse", "site's wheels")
    assert (found, message in said) == (code, True), said
    assert yard.sh("cat mine.sif") == "old\n"
    assert yard.left() == ""


def test_a_wheelhouse_that_would_hide_the_images_python(yard: Yard) -> None:
    code, said = add(yard, "alpha", "--wheelhouse", "/usr")
    assert code == 2
    assert "packages cannot be taken from /usr: in the image, its Python is below it" in said


def test_a_base_without_python(yard: Yard) -> None:
    yard.write("extra.txt", "alpha")
    done = yard.build("--from", "shell.sif", "--requirements", "extra.txt")
    ended(done, 80, "shell.sif has no Python to install packages into")


# Programs for which a base is only asked what they say.
COMPILERS = """Bootstrap: docker
From: x
%post
  cd /usr/bin
  printf '#!/bin/sh\\n' > g++
  printf '#!/bin/sh\\n' > make
  printf '#!/bin/sh\\necho "fatal error: mpi.h" >&2; exit 1\\n' > mpicxx
  chmod 755 g++ make mpicxx
"""


def test_bases_that_horovod_is_not_compiled_for(yard: Yard) -> None:
    def refused(image: str) -> str:
        done = yard.build("--from", image, "--horovod", "-o", "horovod.sif")
        assert (done.returncode, done.stdout) == (80, ""), done.stderr
        assert yard.left() == yard.sh("ls horovod.sif 2> /dev/null || true") == ""
        return done.stderr

    assert "shell.sif has no Python" in refused("shell.sif")
    assert "python.sif has neither torch nor TensorFlow" in refused("python.sif")
    yard.sh("mkdir torch; python3 /opt/kit/tests/real/make_wheel.py torch torch==1.0 horovod==0.2")
    yard.write("compilers.txt", COMPILERS)
    for base, made, *words in (
        ("python.sif", "torch.sif", "--requirements", yard.write("t.txt", "torch")),
        ("torch.sif", "mpi.sif", "--def", "compilers.txt"),
        ("torch.sif", "both.sif", "--requirements", yard.write("h.txt", "horovod")),
    ):
        wheels = ["--wheelhouse", "torch"] if "--def" not in words else []
        succeeded(yard.build("--from", base, *words, *wheels, "-o", made))
    assert "torch.sif has no C++ compiler that works" in refused("torch.sif")
    said = refused("mpi.sif")
    assert "mpi.sif has an MPI that does not compile" in said
    assert "\n  fatal error: mpi.h\n  try: runner build --from" in said
    assert "both.sif already has Horovod 0.2\n" in refused("both.sif")


DEFINITION = """
%files
  data/file /srv/file
%labels
  theirs yes
%post
  {{ command }}
%test
  test "$(cat /srv/file)" = payload
%arguments
  command=true
"""


def derive(yard: Yard, *words: str) -> tuple[int, str]:
    yard.fresh("project", my=DEFINITION)
    yard.sh("mkdir project/data; echo payload > project/data/file")
    command = ["--from", "shell.sif", "--def", "project/my.def", "-o", "derived.sif"]
    done = yard.build(*command, *words)
    return done.returncode, done.stderr


def test_a_definition_on_an_image(yard: Yard) -> None:
    code, said = derive(yard)
    assert code == 0, said
    labels = yard.sh("apptainer inspect derived.sif")
    assert "mine: yes" in labels
    assert "theirs: yes" in labels
    assert "image.base.name: shell.sif" in labels


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("exit 0", "the %post of my.def ended before its last line"),
        ("rm -rf /srv; mkdir /srv", "apptainer test failed (exit code 1)"),
    ],
)
def test_a_definition_that_does_harm(yard: Yard, command: str, message: str) -> None:
    yard.sh("rm -f derived.sif; echo old > derived.sif")
    code, said = derive(yard, "--build-arg", f"command={command}")
    assert code == 1
    assert message in said
    assert yard.sh("cat derived.sif") == "old\n"


def test_the_bases_own_test_must_pass_too(yard: Yard) -> None:
    yard.fresh("strict", base="%post\n  touch /opt/needed\n%test\n  test -e /opt/needed\n")
    yard.fresh("careless", my="%post\n  rm /opt/needed\n%test\n  true\n")
    assert yard.build("strict/base.def", "-o", "strict.sif").returncode == 0
    done = yard.build("--from", "strict.sif", "--def", "careless/my.def", "-o", "careless.sif")
    ended(done, 1, "apptainer test failed")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--from", "absent.sif", "--def", "x.txt"], "absent.sif does not exist"),
        (["--from", "oras://a/b:1", "--def", "x.txt"], "try: runner pull oras://a/b:1"),
        (["--from", "shell.sif", "--def", "x.txt", "-o", "shell.sif"], "name another file"),
    ],
)
def test_an_image_that_nothing_can_start_from(yard: Yard, words: list[str], message: str) -> None:
    yard.write("x.txt", "Bootstrap: docker\nFrom: x\n")
    done = yard.build(*words)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr


AUTHORITY = f"""
openssl() {{ command openssl "$@" 2> /dev/null; }}
key='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes'
openssl req -x509 $key -days 2 -keyout ca.key -out ca.crt -subj '/CN={MARK} authority' \\
    -addext keyUsage=critical,keyCertSign
openssl req $key -keyout server.key -out server.csr -subj /CN=127.0.0.1
printf 'subjectAltName=IP:127.0.0.1' > names
openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 \\
    -out server.crt -extfile names
"""
TLS = "http: {{addr: '127.0.0.1:0', tls: {{certificate: {0}/server.crt, key: {0}/server.key}}}}"
ASKING = """Bootstrap: docker
From: {host}/team/base:one
%post
  python3 -c 'import urllib.request as u; print(u.urlopen("https://{host}/v2/").status, "seen")'
"""
PUSH = """
apptainer build --sandbox box python.sif > /dev/null 2>&1
SSL_CERT_FILE=ca.crt python3 /opt/kit/tests/real/make_oci.py box amd64 one https://{}/v2/team/base
"""


def test_a_sites_authority_is_trusted_during_the_build_only(yard: Yard) -> None:
    yard.sh(AUTHORITY)
    with registry(yard, "registry", TLS.format(yard.folder)) as server:
        yard.sh(PUSH.format(server.host))
        yard.write("ask.def", ASKING.format(host=server.host))
        done = yard.build("ask.def")
        ended(done, 1, "a server's certificate is not trusted", "--ca-certificate FILE")
        proxy = {"https_proxy": f"http://{MARK}.example:1", "no_proxy": "127.0.0.1"}
        succeeded(yard.build("ask.def", "--ca-certificate", "ca.crt", env=proxy))
    assert "200 seen" in yard.sh("cat scratch/horovod-runner/logs/ask.log")
    certificate = yard.sh("sed -n 3p ca.crt").strip()
    assert traces(yard, "ask.sif", MARK, certificate, "/media/ca.crt") == ""


# Answers every request itself: what it is asked for is on no network of the nodes'.
PROXY = """
import http.server
class Proxy(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"by proxy {self.path}".encode())
server = http.server.HTTPServer(("0.0.0.0", 0), Proxy)
print(server.server_port, flush=True)
server.serve_forever()
"""
THROUGH = """
%post
  touch /opt/owned
  python3 -c 'import os; print("on", os.uname()[1], "owner", os.stat("/opt/owned").st_uid)'
  python3 -c 'import urllib.request as u; print(u.urlopen("http://packages.example/x").read())'
"""
IN_A_JOB = """
python3 proxy.py > port & proxy=$!
trap 'kill $proxy' EXIT
until [ -s port ]; do sleep 0.1; done
export http_proxy=http://login:$(cat port) RUNNER_SCRATCH=$PWD/scratch
srun --nodes 1 --nodelist n2 runner build through.def -o through.sif
"""


def test_a_build_within_a_job(yard: Yard) -> None:
    """On a compute node, by fakeroot; what is fetched comes through the proxy that the job has."""
    yard.write("proxy.py", PROXY)
    yard.write("through.def", f"Bootstrap: localimage\nFrom: {yard.folder}/python.sif\n{THROUGH}")
    yard.sh(IN_A_JOB)
    log = yard.sh("cat scratch/horovod-runner/logs/through.log")
    assert "by proxy http://packages.example/x" in log
    assert "on n2 owner 0" in log
    yard.sh("apptainer exec through.sif python3 -c 'open(\"/opt/owned\")'")
    assert yard.left() == ""
