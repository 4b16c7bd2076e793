"""What is inside an image, as its programs say, and whether its labels say the same."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import pytest

from runners.images import verify
from runners.images.facts import probe_image


def answer(**parts: str) -> str:
    """Return the probe's output with these parts, the others empty."""
    names = ("glibc", "mpirun", "pmix_info", "ldconfig", "python", "end")
    return "".join(f"\n== {name}\n{parts.get(name, '')}" for name in names)


@pytest.mark.parametrize(
    ("part", "text", "expected"),
    [
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
    ],
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


@pytest.mark.parametrize(
    ("flavour", "maps", "speaks"),
    [
        ("openmpi", "", "pmix"),
        ("mpich", "/usr/lib/libmpich.so.12\n/usr/lib/libucp.so.0", "pmi2"),
        ("mpich", "/opt/cray/libmpi.so.12\n/opt/cray/pe/lib64/libpmi2.so.0", "pmi2"),
        ("mpich", "/usr/lib64/libpmi.so.0", "pmi1"),
        ("mpich", "/usr/lib64/libpmix.so.2", "pmix"),
        ("intelmpi", "", "pmi2"),
        (None, "", None),
    ],
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
