"""What images say of themselves, and who signed them: the parts that need no image."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import time
from pathlib import Path
from typing import Any

import pytest

from runners.core import digest as file_digest
from runners.core.errors import Refused, SystemFault, UsageError
from runners.images import verify
from runners.images.facts import digest_cache, probe_image
from runners.images.trust import signature

from ..tables import each

ADA, BOB = "9F3CCBD963BD02F7B78058FE1BE313B9AE772BB5", "3CA1E0126FCE0B557FD00EAC2325A56F0CED9C9D"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


# What is inside


def answer(**parts: str) -> str:
    """Return the probe's output with these parts, the others empty."""
    names = ("glibc", "mpirun", "pmix_info", "ldconfig", "python", "end")
    return "".join(f"\n== {name}\n{parts.get(name, '')}" for name in names)


@each(
    ("glibc", "glibc 2.36\n", {"glibc.version": "2.36"}),
    ("glibc", "ldd (GNU libc) 2.28\nCopyright 2018", {"glibc.version": "2.28"}),
    ("glibc", "ldd (Ubuntu GLIBC 2.39-0ubuntu8.6) 2.39\n", {"glibc.version": "2.39"}),
    (
        "ldconfig",
        "\tlibcuda.so.1 (libc6) => /lib/i386-linux-gnu/libcuda.so.1\n"
        "\tlibcuda.so.1 (libc6,x86-64) => /usr/local/cuda/compat/libcuda.so.1\n",
        {"cuda.driver.library": "/usr/local/cuda/compat/libcuda.so.1"},
    ),
    ("ldconfig", "\tlibcuda.so (libc6,x86-64) => /usr/lib/libcuda.so\n", {}),
    ("ldconfig", "21 libs found in cache `/etc/ld.so.cache'\n", {"rdma.libraries": "none"}),
    (
        "ldconfig",
        "21 libs found in cache `/etc/ld.so.cache'\n"
        "\tlibrdmacm.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/librdmacm.so.1\n"
        "\tlibibverbs.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libibverbs.so.1\n"
        "\tlibibverbs.so (libc6,x86-64) => /lib/x86_64-linux-gnu/libibverbs.so\n",
        {"rdma.libraries": "libibverbs.so.1,librdmacm.so.1"},
    ),
    ("glibc", "musl libc (x86_64)\nVersion 1.2.5\n", {}),
    ("mpirun", "Open MPI v4.1.4\n", {"mpi.flavour": "openmpi", "mpi.version": "4.1.4"}),
    ("pmix_info", "PMIX: 4.2.2\nOpenPMIx 4.2.2\n", {"pmix.version": "4.2.2"}),
    ("python", "Traceback: no module named json\n", {}),
)
def test_a_tools_words_are_read(part: str, text: str, expected: dict[str, str]) -> None:
    assert probe_image.parse(answer(**{part: text})) == expected


def test_a_package_that_python_does_not_know_is_not_there() -> None:
    python = '{"torch.version": "2.10.0", "tensorflow.version": null, "horovod.version": null, '
    found = probe_image.parse(answer(python=python + '"pmix.version": null}'))
    assert found == {
        "torch.version": "2.10.0",
        "tensorflow.version": "none",
        "horovod.version": "none",
    }


def test_without_program_or_library_there_is_no_mpi() -> None:
    python = '{"python.version": "3.11.2", "torch.version": null, "tensorflow.version": null, '
    found = probe_image.parse(answer(python=python + '"horovod.version": null}'))
    assert {found[name] for name in probe_image.MPI} == {"none"}
    by_tool = probe_image.parse(
        answer(mpirun="Open MPI v4.1.4", python=python + '"horovod.version": null}')
    )
    assert by_tool["mpi.flavour"] == "openmpi"
    assert "pmi.client" not in by_tool


@each(
    ("openmpi", "", "pmix"),
    ("mpich", "/usr/lib/libmpich.so.12\n/usr/lib/libucp.so.0", "pmi2"),
    ("mpich", "/opt/cray/libmpi.so.12\n/opt/cray/pe/lib64/libpmi2.so.0", "pmi2"),
    ("mpich", "/usr/lib64/libpmi.so.0", "pmi1"),
    ("mpich", "/usr/lib64/libpmix.so.2", "pmix"),
    ("intelmpi", "", "pmi2"),
    (None, "", None),
)
def test_what_an_mpi_speaks(flavour: str | None, maps: str, speaks: str | None) -> None:
    program = Path(probe_image.__file__).with_name("probe_python.py").read_text()
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(program, names)
    assert names["client"](flavour, maps) == speaks


def test_gloo_is_tried_before_mpi() -> None:
    built = {"horovod.frameworks": "pytorch,mxnet", "horovod.controllers": "mpi,gloo"}
    assert probe_image.testable(built) == [("torch", "gloo")]
    assert probe_image.testable({**built, "horovod.controllers": "mpi"}) == [("torch", "mpi")]
    assert probe_image.testable({**built, "horovod.controllers": "none"}) == []
    assert probe_image.testable({}) == []


def test_labels_are_compared_as_sets() -> None:
    labels = {"horovod.frameworks": "pytorch,tensorflow", "torch.version": "2.13.0", "x": "1"}
    found = {"horovod.frameworks": "tensorflow,pytorch", "torch.version": "2.12.0"}
    assert verify.differing(labels, found) == [
        "torch.version: the label says 2.13.0, inside is 2.12.0"
    ]


def test_the_bill_lies_beside_the_image() -> None:
    assert probe_image.bill_beside(Path("a/horovod_cpu.sif")) == Path("a/horovod_cpu.cdx.json")


# Signatures


def test_only_keys_whose_every_object_is_right_have_signed() -> None:
    def signer(key: str, good: bool) -> str:
        text = f'"Fingerprint": "{key.lower()}", "KeyCheck": true, "DataCheck": {str(good).lower()}'
        return "{" + f'"Signer": {{{text}}}' + "}"

    keys = ", ".join([signer(ADA, True), signer(BOB, True), signer(BOB, False)])
    assert signature.verified(f'INFO: x\n{{"Signatures": 2, "SignerKeys": [{keys}]}}') == (ADA,)
    assert signature.verified('{"Signatures": 1, "SignerKeys": null}') == ()
    assert signature.verified("") == ()


KEYS = [(ADA, "Ada <ada@x.org>"), (BOB, "Bob <bob@x.org>")]


@each((ADA, 0), (BOB[-16:].lower(), 1), (BOB[-8:], 1))
def test_a_key_is_named_by_its_fingerprint(wanted: str, number: int) -> None:
    assert signature.choose(KEYS, wanted) == number


def test_the_only_key_needs_no_name() -> None:
    assert signature.choose(KEYS[1:], "") == 0


@each(("", "more than one"), ("9C9D", "is not one of"))
def test_a_key_that_is_not_certain(wanted: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as error:
        signature.choose(KEYS, wanted)
    assert "Bob <bob@x.org>" in error.value.evidence


def test_without_a_key_the_remedy_makes_one() -> None:
    with pytest.raises(Refused) as error:
        signature.choose([], "")
    assert str(error.value.remedies[0]).startswith("apptainer key newpair")


# What is remembered


@pytest.fixture
def old(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that counts as at rest the moment it is written."""
    monkeypatch.setattr(digest_cache, "REST", -1)
    path = here / "a.sif"
    path.write_bytes(b"content")
    return path


def test_a_digest_is_remembered_and_an_altered_file_is_not(old: Path) -> None:
    first = digest_cache.digest(old)
    assert digest_cache.recall(old) == first
    times = (old.stat().st_atime_ns, old.stat().st_mtime_ns)
    old.write_bytes(b"CONTENT")
    os.utime(old, ns=times)
    assert not digest_cache.recall(old)
    assert digest_cache.digest(old) != first


def test_a_file_put_in_its_place_is_another(old: Path) -> None:
    digest_cache.digest(old)
    other = old.with_name("b.sif")
    other.write_bytes(b"CONTENT")
    os.utime(other, ns=(0, old.stat().st_mtime_ns))
    other.replace(old)
    assert not digest_cache.recall(old)


def test_a_file_just_written_is_not_remembered(here: Path) -> None:
    path = here / "a.sif"
    path.write_bytes(b"content")
    digest_cache.digest(path)
    assert not digest_cache.recall(path)
    assert digest_cache.at_rest(digest_cache.stamp(path), time.time() + digest_cache.REST + 1)


@pytest.fixture
def touched(old: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often something happens to the file at the end of each read: links are made to it."""
    left, read = [0], file_digest.sha256

    def read_and_link(path: Path, progress: None) -> str:
        found = read(path)
        if left[0]:
            os.link(path, path.with_name(f"{left[0]}.sif"))
            left[0] -= 1
        return found

    monkeypatch.setattr(file_digest, "sha256", read_and_link)
    return left


def test_a_link_to_a_file_that_is_read_does_no_harm(old: Path, touched: list[int]) -> None:
    touched[0] = 2
    assert digest_cache.digest(old) == f"sha256:{hashlib.sha256(b'content').hexdigest()}"
    assert digest_cache.recall(old), "remembered by the stamp of the read that counted"


def test_a_file_that_goes_on_changing_has_no_digest(old: Path, touched: list[int]) -> None:
    touched[0] = digest_cache.READS
    with pytest.raises(SystemFault, match="changed while it was read, 3 times"):
        digest_cache.digest(old)
    assert not digest_cache.recall(old)


def test_memory_that_others_could_write_is_not_trusted(old: Path) -> None:
    digest_cache.digest(old)
    for file in digest_cache.folder().iterdir():
        assert file.stat().st_mode & 0o077 == 0
        file.chmod(0o666)
    assert not digest_cache.recall(old)


def test_half_a_memory_is_none(old: Path) -> None:
    digest_cache.digest(old)
    for file in digest_cache.folder().iterdir():
        file.write_text('{"stamp": [')
    assert digest_cache.digest(old).startswith("sha256:")


def test_a_file_that_cannot_be_read(here: Path) -> None:
    with pytest.raises(SystemFault, match="cannot read"):
        digest_cache.digest(here)
