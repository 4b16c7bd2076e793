"""What a runtime does not have, though the request asks for it. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from ...core.model import Dataset, JobSpec, Refusal
from ...core.remedy import Remedy, change

# Their images are names, or files, that only the runtime on a node looks into.
STORES = (
    *("shifter", "podman-hpc", "podman", "pyxis"),
    *("enroot", "oci-bundle", "container-engine"),
)
ODD = {
    "shifter": ("--volume", ":;"),
    "pyxis": ("--container-mounts", ":,"),
    "container-engine": ("mounts", ":+$"),
    "enroot": ("a line of fstab", " \t\n\\$"),
}
# By runtime: options that it cannot have, what to say of each, and why.
WITHOUT = {
    "none": (
        ("bind", "apptainer-arg", "host-mpi"),
        "--{} needs a container, and --runtime none has none",
        "the trainer sees this machine's folders and libraries as they are",
    ),
    "oci-bundle": (
        ("bind", "data"),
        "--runtime oci-bundle mounts nothing for --{}",
        "the bundle's config.json says what is mounted",
    ),
}
OWN_MPI = {"shifter": "--module=mpich", "podman-hpc": "--mpi"}


def refusals(spec: JobSpec, runtime: str) -> tuple[Refusal, ...]:
    """Return what cannot be had with this runtime, each with what to do instead."""
    if runtime != "none" and runtime not in STORES:
        return ()
    stores = _of_stores(spec, runtime) if runtime in STORES else ()
    return (*_options(spec, runtime), *stores, *_of_data(spec, runtime))


def _options(spec: JobSpec, runtime: str) -> Iterator[Refusal]:
    """Refuse options that mean nothing to a runtime, whatever they say."""
    given = {
        "bind": spec.binds,
        "data": spec.data,
        "apptainer-arg": spec.apptainer_args,
        "host-mpi": spec.host_mpi,
    }
    options, what, why = WITHOUT.get(runtime, ((), "", ""))
    for option in options:
        if given[option]:
            yield Refusal(what.format(option), why, (change(leave_out=[option]),))


def _of_stores(spec: JobSpec, runtime: str) -> Iterator[Refusal]:
    if spec.host_mpi and runtime not in OWN_MPI:
        what = f"--host-mpi is for Apptainer and Singularity, not for {runtime}"
        yield Refusal(what, "", (change(leave_out=["host-mpi"]),))
    elif spec.host_mpi:
        evidence = f"--apptainer-arg={OWN_MPI[runtime]}, or what the site calls it"
        what = f"{runtime} brings the host's MPI by a module of its own, not by --host-mpi"
        remedy = change(apptainer_arg=OWN_MPI[runtime], leave_out=["host-mpi"])
        yield Refusal(what, evidence, (remedy,))
    if spec.rocm:
        evidence = "--apptainer-arg takes what the site has for it"
        yield Refusal(f"{runtime} has no --rocm", evidence, (change(rocm=False),))
    for bind in spec.binds if runtime in ODD else ():
        yield from _odd(runtime, bind.source, bind.target, change(leave_out=["bind"]))


def _odd(runtime: str, source: str, target: str, *remedies: Remedy) -> Iterator[Refusal]:
    """Refuse paths that an option like --volume=SOURCE:TARGET;SOURCE:TARGET cannot hold."""
    option, between = ODD[runtime]
    odd = sorted(set(source + target) & set(between))
    if odd:
        what = f"{runtime} cannot mount {source} at {target}"
        yield Refusal(what, f"in {option} {' and '.join(odd)} stand between paths", remedies)


def _of_data(spec: JobSpec, runtime: str) -> Iterator[Refusal]:
    """Only Apptainer and Singularity mount a file system out of a file (`image-src`)."""
    for each in spec.data:
        if each.squashfs:
            what = f"{runtime} cannot mount the squashfs file {each.path}"
            folder = f"{each.path.stem}-unpacked"
            unpack = shlex.join(["unsquashfs", "-d", folder, str(each.path)])
            data = [_typed(one, folder if one is each else str(one.path)) for one in spec.data]
            remedy = change(data=data, leave_out=["data"], first=unpack)
            yield Refusal(what, "apptainer can", (remedy,))
    if runtime == "none" and len(spec.data) > 1:
        names = ", ".join(each.name for each in spec.data)
        what = f"--runtime none takes one dataset, not {names}"
        yield Refusal(
            what, "DATA_DIR is the dataset's own folder there", (change(leave_out=["data"]),)
        )
    for each in spec.data if runtime in ODD else ():
        yield from _odd(runtime, str(each.path), each.name)


def _typed(dataset: Dataset, path: str) -> str:
    return f"{dataset.name}={path}" if dataset.name else path
