"""What a runtime does not have, though the request asks for it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ..model import JobSpec, Refusal

OWN_MPI = {"shifter": "--module=mpich", "podman-hpc": "--mpi"}


def refusals(spec: JobSpec, runtime: str) -> tuple[Refusal, ...]:
    """Return what cannot be had with this runtime, each with what to do instead."""
    if runtime == "none":
        return tuple(_of_none(spec))
    if runtime in ("shifter", "podman-hpc"):
        return tuple(_of_stores(spec, runtime))
    return ()


def _of_none(spec: JobSpec) -> Iterator[Refusal]:
    where = "the trainer sees this machine's folders and libraries as they are"
    for option, given in (
        ("--bind", spec.binds),
        ("--apptainer-arg", spec.apptainer_args),
        ("--host-mpi", spec.host_mpi),
    ):
        if given:
            what = f"{option} needs a container, and --runtime none has none"
            yield Refusal(what, where, (f"leave out {option}",))


def _of_stores(spec: JobSpec, runtime: str) -> Iterator[Refusal]:
    if spec.host_mpi:
        evidence = f"--apptainer-arg={OWN_MPI[runtime]}, or what the site calls it"
        what = f"{runtime} brings the host's MPI by a module of its own, not by --host-mpi"
        yield Refusal(
            what, evidence, (f"--apptainer-arg={OWN_MPI[runtime]}, leave out --host-mpi",)
        )
    if spec.rocm:
        evidence = "--apptainer-arg takes what the site has for it"
        yield Refusal(f"{runtime} has no --rocm", evidence, ("--no-rocm",))
    for bind in spec.binds if runtime == "shifter" else ():
        odd = sorted(set(bind.source + bind.target) & set(":;"))
        if odd:
            what = f"shifter cannot mount {bind.source} at {bind.target}"
            evidence = f"in --volume {' and '.join(odd)} stand between paths"
            yield Refusal(what, evidence, ("leave out --bind",))
