"""What a runtime does not have, though the request asks for it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ..model import JobSpec, Refusal


def refusals(spec: JobSpec, runtime: str) -> tuple[Refusal, ...]:
    """Return what cannot be had with this runtime, each with what to do instead."""
    if runtime == "none":
        return tuple(_of_none(spec))
    if runtime in ("shifter", "podman-hpc"):
        return tuple(_of_stores(spec, runtime))
    return ()


def _of_none(spec: JobSpec) -> Iterator[Refusal]:
    where = "the trainer sees this machine's folders as they are"
    if spec.binds:
        yield Refusal("--bind needs a container, and --runtime none has none", where)
    if spec.apptainer_args:
        what = "--apptainer-arg is for a container runtime, and --runtime none has none"
        yield Refusal(what, " ".join(spec.apptainer_args))


def _of_stores(spec: JobSpec, runtime: str) -> Iterator[Refusal]:
    if spec.rocm:
        yield Refusal(
            f"{runtime} has no --rocm", "", ("--apptainer-arg with the site's own option",)
        )
    if runtime == "shifter":
        for bind in spec.binds:
            odd = sorted(set(bind.source + bind.target) & set(":;"))
            if odd:
                what = f"shifter cannot mount {bind.source} at {bind.target}"
                yield Refusal(what, f"in --volume {' and '.join(odd)} stand between paths")
