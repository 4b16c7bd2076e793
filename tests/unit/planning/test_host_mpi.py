"""The host's MPI in the image: where its libraries are, what the check says, what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from runners.contract.enums import Controller
from runners.core.model import (
    ImageInfo,
    JobSpec,
    LauncherName,
    MpiFlavour,
    Resources,
    RuntimeName,
    SchedulerName,
)
from runners.core.site import HostMpi, Mpirun, Profile, Site
from runners.core.trainer import Trainer
from runners.injob import mpi_check
from runners.sites import find_host_mpi

from .. import sentences
from ..plans import planned
from ..scripts import OURS

LDD = """\
	linux-vdso.so.1 (0x00007ffd)
	libopen-pal.so.40 => /lib/x86_64-linux-gnu/libopen-pal.so.40 (0x00007f01)
	libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f02)
	libm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f02)
	libhwloc.so.15 => not found
	/lib64/ld-linux-x86-64.so.2 (0x00007f03)
"""
LIBRARIES = HostMpi(("/opt/openmpi",), "/opt/openmpi/lib")


def test_ldd_is_read() -> None:
    assert set(find_host_mpi.parse_ldd(LDD)) == {"libopen-pal.so.40", "libc.so.6", "libm.so.6"}
    assert mpi_check.linked(LDD)["libhwloc.so.15"] == ""


def test_an_mpi_among_the_systems_libraries_is_bound_file_by_file() -> None:
    made = find_host_mpi.described(
        Path("/usr"), Path("/usr/lib/libmpi.so.40"), find_host_mpi.parse_ldd(LDD)
    )
    assert made.library_path == "/host-mpi"
    assert made.binds == (
        "/usr/lib/libmpi.so.40:/host-mpi/libmpi.so.40",
        "/lib/x86_64-linux-gnu/libopen-pal.so.40:/host-mpi/libopen-pal.so.40",
    )


def test_an_mpi_in_a_prefix_of_its_own_is_bound_as_it_is(tmp_path: Path) -> None:
    prefix = tmp_path / "openmpi-4.1.4"
    (prefix / "lib" / "openmpi").mkdir(parents=True)
    (prefix / "lib" / "openmpi" / "mca_btl_tcp.so").touch()
    for name in ("libmpi.so.40.30.4", "libmpi.so.40", "libopen-pal.so.40"):
        (prefix / "lib" / name).touch()
    libmpi = prefix / "lib" / "libmpi.so.40"
    assert find_host_mpi._library(prefix) == libmpi
    needs = {"libopen-pal.so.40": prefix / "lib" / "libopen-pal.so.40", "libc.so.6": Path("/l/c")}
    alone = find_host_mpi.described(prefix, libmpi, needs)
    assert alone == HostMpi((str(prefix),), str(prefix / "lib"))
    more = find_host_mpi.described(
        prefix, libmpi, {**needs, "libpmix.so.2": Path("/lib/libpmix.so.2")}
    )
    assert more.binds[1:] == ("/lib/libpmix.so.2:/host-mpi/libpmix.so.2",)
    assert more.library_path == f"{prefix}/lib:/host-mpi"


def test_plugins_among_the_systems_libraries_come_along(tmp_path: Path) -> None:
    folder = tmp_path / "lib" / "openmpi3"
    folder.mkdir(parents=True)
    (folder / "mca_btl_tcp.so").touch()
    libmpi = tmp_path / "lib" / "libmpi.so.40"
    libmpi.touch()
    assert str(folder) in find_host_mpi.described(Path("/usr"), libmpi, {}).binds


def test_no_mpirun_is_no_host_mpi(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_host_mpi.libraries() is None


@pytest.mark.parametrize(
    ("where", "answer", "told"),
    [
        ("", "", "is not found in the image"),
        ("/lib/libmpi.so.40", "", "finds the image's own MPI, /lib/libmpi.so.40"),
        ("/host/libmpi.so.40", LDD, "lacks libhwloc.so.15 in the image"),
        (
            "/host/libmpi.so.40",
            "/host/x.so: /lib/libc.so.6: version `GLIBC_2.38' not found (required by /host/x.so)",
            "too old for the host's MPI: /host/x.so needs GLIBC_2.38",
        ),
        ("/host/libmpi.so.40", LDD.replace("not found", "/host/libhwloc.so.15 (0x1)"), ""),
    ],
)
def test_what_the_check_says_of_libraries(where: str, answer: str, told: str) -> None:
    said = mpi_check.problem_of(where, answer, "/none:/host")
    assert told in said
    assert bool(told) == bool(said)


SPEC = JobSpec(
    name="t",
    image=ImageInfo(Path("/a.sif")),
    trainer=Trainer("t", None, Path("/w/t.py")),
    resources=Resources(nodes=2),
    runs_dir=Path("/runs"),
    host_mpi=True,
)
SITE = Site(
    (SchedulerName.SLURM,),
    ("none", "pmix", "pmi2"),
    RuntimeName.APPTAINER,
    host_libraries=LIBRARIES,
)


def refusals(site: Site = SITE, facts: dict[str, str] = OURS, **changes: object) -> list[str]:
    spec = replace(SPEC, **changes)  # type: ignore[arg-type]
    made = planned(spec, site, image=ImageInfo(SPEC.image.path, facts))
    return sentences.ids(made.refusals)


def test_it_chooses_mpi_and_the_libraries() -> None:
    made = planned(SPEC, SITE, image=ImageInfo(SPEC.image.path, OURS))
    assert (made.refusals, made.wireup.controller, made.host_mpi) == ((), "mpi", LIBRARIES)
    without = planned(SPEC, SITE, host_mpi=False, image=ImageInfo(SPEC.image.path, OURS))
    assert without.host_mpi is None


def test_what_it_does_not_go_with() -> None:
    assert refusals(controller=Controller.GLOO) == ["host-mpi-controller"]
    alone = refusals(launcher=LauncherName.HOROVODRUN, resources=Resources())
    assert alone == ["host-mpi-launcher"]
    assert refusals(replace(SITE, host_libraries=None)) == ["host-mpi-not-found"]


def test_mounts_over_an_image_of_ours_are_refused() -> None:
    def on(bind: str, facts: dict[str, str]) -> list[str]:
        profile = Profile("p", host_mpi=HostMpi((bind,), "/opt/mpi/lib"))
        return refusals(replace(SITE, profile=profile), facts)

    ours = {**OURS, "horovod.version": "0.28.1"}
    assert on("/opt", ours) == ["host-mpi-hides-image"]
    assert on("/opt/horovod-mpi", ours) == on("/opt:/host/opt", ours) == on("/opt", OURS) == []


def test_an_mpi_of_another_family_is_refused() -> None:
    here = replace(SITE, mpirun=Mpirun(MpiFlavour.OPEN_MPI, "5.0.7"))
    assert refusals(here) == []
    mpich = {**OURS, "mpi.flavour": "mpich", "pmi.client": "pmi2"}
    assert refusals(here, mpich) == ["mpi-family"]
    assert refusals(replace(here, mpirun=Mpirun(MpiFlavour.INTEL_MPI, "2021")), mpich) == []
