"""What is in an image, found out and proven by running things inside it."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from containers.horovod_image import selftest

from ...core import digest, shell
from ...core.errors import SystemFault
from ...core.model import BindMount
from ...core.trainer import Framework
from ...runtimes.command_lines import bind_option
from ...sites import probe
from .. import container_runtime

# An empty home and /tmp of their own, none of the user's variables: what is found or proven is the
# image's, and would be the same for others.
FLAGS = ("--cleanenv", "--contain", "--ipc")
# Variables with which the user would put more into each container.
PREFIXES = ("APPTAINERENV_", "SINGULARITYENV_", "APPTAINER_BIND", "SINGULARITY_BIND")
SECONDS = 300  # frameworks are imported, from a cold file system perhaps
# $1 is the program for Python. Each part may fail: then its answer has no version in it.
# `python -c` imports from the current folder first, in which others may have put modules.
SCRIPT = """\
cd /
part() { printf '\\n== %s\\n' "$1"; }
part glibc; getconf GNU_LIBC_VERSION || ldd --version
part mpirun; mpirun --version || ompi_info --version || mpichversion
part pmix_info; pmix_info --version
part ldconfig
PATH="$PATH:/usr/sbin:/sbin" ldconfig -p | grep -E 'libs found|libcuda|ibverbs|rdmacm'
part python
for python in python3 python; do
    command -v "$python" > /dev/null && { "$python" -c "$1"; break; }
done
part end
"""
ASK_HOROVOD = """\
cd /
for python in python3 python; do
    command -v "$python" > /dev/null && exec "$python" -c "$1"
done
"""
VERSION = r"(\d+(?:\.\d+)+\w*)"
# Part of the script, pattern with one group, fact.
PATTERNS = (
    ("glibc", rf"(?:glibc|GNU libc|GLIBC)\D.*?{VERSION}", "glibc.version"),
    ("pmix_info", rf"PMIx\D.*?{VERSION}", "pmix.version"),
    # The 64-bit one on the loader's default path; a dangling link is not listed.
    ("ldconfig", r"libcuda\.so\.1 \(libc6,[^)]+\) => (\S+)", "cuda.driver.library"),
)
# By name what NCCL, UCX and libfabric open to reach InfiniBand and RoCE cards.
RDMA = re.compile(r"^\s*(libibverbs\.so\.1|librdmacm\.so\.1) ", re.MULTILINE)
# What is not there when neither a program nor a library of an MPI is.
MPI = ("mpi.flavour", "mpi.version", "pmi.client")
WORDS = {kind: f"horovod.{kind}" for kind in selftest.HEADINGS.values()}
TEST_SECONDS = 1500  # twenty times what is normal; each part has a shorter limit of its own
AGREED = "ranks agree"
# A line of our self-test, such as "controllers: MPI, Gloo".
BUILT = re.compile(rf"^({'|'.join(WORDS)}): (.+)$", re.MULTILINE)


def run(image: Path, argv: Sequence[str], timeout: float, bind: Path | None = None) -> shell.Result:
    """Run `argv` in the image, for `timeout` seconds at most.

    `bind` is a file that is seen under its own path. Raises Refused without a container runtime,
    SystemFault when nothing answers in time.

    NOTE: /tmp of --contain has 64 MB by default (Apptainer 1.4, `sessiondir max size`), less than
    the headers that torch.compile precompiles for AVX-512; --workdir puts it into a folder.
    """
    env = {name: text for name, text in os.environ.items() if not name.startswith(PREFIXES)}
    binds = bind_option(BindMount(str(bind), str(bind), read_only=True)) if bind else []
    with tempfile.TemporaryDirectory(prefix="runner-probe.") as work:
        flags = (*FLAGS, "--workdir", work)
        return shell.run(
            [container_runtime.command(), "exec", *flags, *binds, str(image), *argv],
            env=env,
            timeout=timeout,
        )


def script() -> list[str]:
    """Return the command that asks for the versions, with the program for Python."""
    return ["/bin/sh", "-c", SCRIPT, "sh", _program("probe_python.py")]


def build_script() -> list[str]:
    """Return the command that asks Horovod what it was built with."""
    return ["/bin/sh", "-c", ASK_HOROVOD, "sh", _program("probe_build.py")]


def _program(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def key() -> str:
    """Return a name that changes when other questions are asked of an image."""
    return digest.of_text("".join([*script(), *build_script()]))[:12]


def everything(image: Path) -> dict[str, str]:
    """Return the facts of `versions` and of `check_build`; raise as they do."""
    facts = versions(image)
    return {**facts, **check_build(image)} if facts.get("horovod.version") != "none" else facts


def versions(image: Path) -> dict[str, str]:
    """Return the versions found inside the image, named as our labels; "none" is "not in it".

    What could not be found out is absent. Raises SystemFault when nothing runs in it.
    """
    done = run(image, script(), SECONDS)
    if "== end" not in done.out:
        raise SystemFault(f"nothing can be run in {image}", done.err, id="image-does-not-run")
    return parse(done.out)


def check_build(image: Path) -> dict[str, str]:
    """Return what Horovod was built with by its own words, nothing where it does not answer."""
    return parse_build(run(image, build_script(), SECONDS).out)


def parse_build(text: str) -> dict[str, str]:
    """Return the facts of the last line; before it may be what an import said."""
    try:
        return dict(json.loads(text.strip().rpartition("\n")[2]))
    except (ValueError, TypeError):
        return {}


def parse(text: str) -> dict[str, str]:
    pieces = re.split(r"^== (\w+)$", text, flags=re.MULTILINE)
    parts = dict(zip(pieces[1::2], pieces[2::2]))
    facts = {**_from_tools(parts), **_from_python(parts["python"])}
    if "python.version" in facts and "mpi.version" not in facts:
        facts.update(dict.fromkeys(MPI, "none"))
    return facts


def _from_tools(parts: dict[str, str]) -> dict[str, str]:
    facts: dict[str, str] = {}
    for part, pattern, fact in PATTERNS:
        if match := re.search(pattern, parts[part]):
            facts[fact] = match[1]
    if mpi := probe.parse_mpirun(parts["mpirun"]):
        facts["mpi.flavour"], facts["mpi.version"] = mpi
    if "libs found" in parts["ldconfig"]:  # else there is no ldconfig, or none that answers
        libraries = sorted(set(RDMA.findall(parts["ldconfig"])))
        facts["rdma.libraries"] = ",".join(libraries) or "none"
    return facts


def _from_python(text: str) -> dict[str, str]:
    """A package that this Python does not know is not there; a library may be elsewhere."""
    try:
        facts = json.loads(text)
    except ValueError:
        return {}
    packages = ("torch.version", "tensorflow.version", "horovod.version")
    missing = {name: "none" for name in packages if facts[name] is None}
    return {**{name: value for name, value in facts.items() if value is not None}, **missing}


@dataclass(frozen=True)
class Proof:
    """What Horovod says it was built with, what agreed, and the output of what did not."""

    built: dict[str, str]
    agreed: str
    failure: str = ""


def own_test(image: Path) -> Proof:
    """Let one of our images prove itself, which begins with check-build."""
    done = run(image, ["python", "-m", "horovod_image.selftest"], TEST_SECONDS)
    built = {WORDS[kind]: names.lower() for kind, names in BUILT.findall(done.out)}
    return Proof({fact: names.replace(", ", ",") for fact, names in built.items()}, *_said(done))


def foreign_test(image: Path) -> Proof:
    """Bind our self-test into an image of others; each framework has to agree."""
    built = check_build(image)
    pairs = testable(built)
    if not pairs:
        return Proof(built, "", "there is no Horovod in it that could be tested")
    file = Path(selftest.__file__).resolve()
    prove = ["python3", str(file), "prove"]
    outputs = [_said(run(image, [*prove, *pair], TEST_SECONDS, bind=file)) for pair in pairs]
    agreed, failures = ("\n".join(filter(None, texts)) for texts in zip(*outputs))
    return Proof(built, agreed, failures)


def testable(built: dict[str, str]) -> list[tuple[str, str]]:
    """Return each framework with a controller, Gloo if there is a choice: it needs less around."""
    frameworks, controllers = (
        built.get(WORDS[kind], "").split(",") for kind in ("frameworks", "controllers")
    )
    usable = [name for name in ("gloo", "mpi") if name in controllers][:1]
    return [
        (framework.package, usable[0])
        for framework in Framework
        if framework in frameworks and usable
    ]


def _said(done: shell.Result) -> tuple[str, str]:
    """Return the lines of what agreed, and the whole output when something failed."""
    agreed = "\n".join(line for line in done.out.splitlines() if AGREED in line)
    return agreed, f"{done.out}{done.err}".strip() if done.code else ""
