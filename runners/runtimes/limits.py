"""What a runtime does not have, though the request asks for it. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

from ..core.diagnosis import Diagnosis, refusal, warning
from ..core.model import Dataset, JobSpec, RuntimeName
from ..core.remedy import Remedy, change
from . import FILES, RUNTIMES, STORES

CONTAIN = ("--contain", "--containall", "-c", "-C")
WORKERS = re.compile(r"--(num[-_])?workers[= ][1-9]")


def refusals(spec: JobSpec, runtime: RuntimeName) -> tuple[Diagnosis, ...]:
    """Return what cannot be had with this runtime, each with what to do instead."""
    if runtime is RuntimeName.NONE:
        return (*_without_container(spec), *_of_data(spec, runtime))
    if runtime in STORES:
        return (*_of_stores(spec, runtime), *_of_data(spec, runtime))
    return ()


def _without_container(spec: JobSpec) -> Iterator[Diagnosis]:
    given = {"bind": spec.binds, "apptainer-arg": spec.apptainer_args, "host-mpi": spec.host_mpi}
    for option in (name for name, value in given.items() if value):
        what = f"--{option} needs a container, and --runtime none has none"
        why = "the trainer sees this machine's folders and libraries as they are"
        yield refusal("option-needs-container", what, why, change(leave_out=[option]))


def _of_stores(spec: JobSpec, runtime: RuntimeName) -> Iterator[Diagnosis]:
    own_mpi = RUNTIMES[runtime].own_mpi
    if spec.host_mpi and not own_mpi:
        what = f"--host-mpi is for Apptainer and Singularity, not for {runtime}"
        yield refusal("host-mpi-not-of-runtime", what, "", change(leave_out=["host-mpi"]))
    elif spec.host_mpi:
        evidence = f"--apptainer-arg={own_mpi}, or what the site calls it"
        what = f"{runtime} brings the host's MPI by a module of its own, not by --host-mpi"
        remedy = change(apptainer_arg=own_mpi, leave_out=["host-mpi"])
        yield refusal("host-mpi-by-module", what, evidence, remedy)
    if spec.rocm:
        evidence = "--apptainer-arg takes what the site has for it"
        yield refusal(
            "rocm-not-of-runtime", f"{runtime} has no --rocm", evidence, change(rocm=False)
        )
    for bind in spec.binds:
        yield from _odd(runtime, str(bind.source), bind.target, change(leave_out=["bind"]))


def _odd(runtime: RuntimeName, source: str, target: str, *remedies: Remedy) -> Iterator[Diagnosis]:
    """Refuse paths that an option like --volume=SOURCE:TARGET;SOURCE:TARGET cannot hold."""
    odd = sorted(set(source + target) & set(RUNTIMES[runtime].separators))
    if odd:
        what = f"{runtime} cannot mount {source} at {target}"
        evidence = f"in --volume {' and '.join(odd)} stand between paths"
        yield refusal("path-not-of-runtime", what, evidence, *remedies)


def _of_data(spec: JobSpec, runtime: RuntimeName) -> Iterator[Diagnosis]:
    """Only Apptainer and Singularity mount a file system out of a file (`image-src`)."""
    if any(dataset.squashfs for dataset in spec.data):
        yield _squashfs(spec.data, runtime)
    if runtime is RuntimeName.NONE and len(spec.data) > 1:
        names = ", ".join(dataset.name for dataset in spec.data)
        what = f"--runtime none takes one dataset, not {names}"
        evidence = "DATA_DIR is the dataset's own folder there"
        yield refusal("one-dataset-only", what, evidence, change(leave_out=["data"]))
    for dataset in spec.data:
        yield from _odd(runtime, str(dataset.path), dataset.name)


def _squashfs(datasets: Sequence[Dataset], runtime: RuntimeName) -> Diagnosis:
    """Refuse the datasets in squashfs files; the remedy unpacks all of them, each into a folder."""
    unpacked = {
        str(dataset.path): f"{dataset.name or dataset.path.stem}-unpacked"
        for dataset in datasets
        if dataset.squashfs
    }
    lines = [shlex.join(["unsquashfs", "-d", to, file]) for file, to in unpacked.items()]
    data = [
        _typed(dataset, unpacked.get(str(dataset.path), str(dataset.path))) for dataset in datasets
    ]
    files = "file" if len(unpacked) == 1 else "files"
    what = f"{runtime} cannot mount the squashfs {files} {', '.join(unpacked)}"
    remedy = change(data=data, leave_out=["data"], first=" && ".join(lines))
    return refusal("squashfs-not-of-runtime", what, "apptainer can", remedy)


def _typed(dataset: Dataset, path: str) -> str:
    return f"{dataset.name}={path}" if dataset.name else path


def contained(spec: JobSpec, ranks: int, runtime: RuntimeName) -> Iterator[Diagnosis]:
    """Warn of --contain where processes of a node, such as its `ranks`, share memory.

    NOTE: each container then has a /dev/shm of its own, which no --bind replaces (Apptainer 1.4.5,
    its issue 3001), and /tmp and home in a session directory of 64 MB (`sessiondir max size`).
    """
    given = [arg for arg in spec.apptainer_args if arg in CONTAIN]
    if runtime not in FILES or not given:
        return
    if ranks > 1:
        who = f"the {ranks} ranks of a node share no memory by it, as NCCL and MPI want to"
    elif WORKERS.search(" ".join(spec.trainer.args)):
        who = "data loading workers may fill it"
    else:
        return
    rest = [arg for arg in spec.apptainer_args if arg not in CONTAIN]
    yield warning(
        "contained-memory",
        f"{given[0]} gives each container its own /dev/shm, /tmp and home, of 64 MB where the "
        f"site's Apptainer limits it: {who}",
        change(apptainer_arg=rest, leave_out=["apptainer-arg"]),
    )
