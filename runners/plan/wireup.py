"""How N processes become one world: controller, srun's --mpi=, launcher, and the image's MPI.

The rules are those that the matrix proves cell by cell (tests/matrix).
"""

from __future__ import annotations

from ..core.model import ImageInfo, JobSpec, Refusal, Site
from ..schedulers import capabilities
from .choices import Notes

# What an MPI library speaks to who starts it -> srun's --mpi= that offers it. Slurm's pmi2 plugin
# also understands PMI-1, the older wire protocol of MPICH.
OFFERS = {"pmix": "pmix", "pmi2": "pmi2", "pmi1": "pmi2"}
# Generations of Open MPI, in the image and on the host, that differ and yet make one world.
JOINS = {("5", "4"), ("5", "6"), ("4", "6")}
NAMES = {"pmix": "PMIx", "pmi2": "PMI-2", "pmi1": "PMI-1"}


def client(image: ImageInfo) -> str:
    """Return what the image's MPI speaks: pmix, pmi2, pmi1, "none" without MPI, "" if unknown."""
    known = image.fact("pmi.client")
    if known:
        return known
    flavour = image.fact("mpi.flavour")
    if flavour == "openmpi":
        return "pmix" if image.fact("pmix.version") not in ("", "none") else ""
    if flavour in ("mpich", "intelmpi"):
        return "pmi2"
    return "none" if image.fact("mpi.version") == "none" else ""


def controller(spec: JobSpec, site: Site, image: ImageInfo, where: str, notes: Notes) -> str:
    """Choose who starts and steers Horovod."""
    there = image.listed("horovod.controllers")
    if spec.controller != "auto":
        if there and spec.controller not in there:
            notes.refuse(
                f"the Horovod in {image.path.name} has no {spec.controller} controller",
                image.how("horovod.controllers"),
            )
        return notes.choose("controller", spec.controller, "as asked")
    if spec.host_mpi and "mpi" in (there or "mpi"):
        return notes.choose("controller", "mpi", "the host's MPI is to be used")
    if not there:
        reason = "the image does not say what it has; Gloo needs nothing of the host"
        return notes.choose("controller", "gloo", reason, image.how("horovod.controllers"))
    if "mpi" in there and _is_at_hand(spec, site, image, where):
        version = image.fact("pmix.version")
        reason = f"the image has PMIx {version} and srun offers --mpi=pmix"
        return notes.choose("controller", "mpi", reason, image.how("pmix.version"))
    if "gloo" in there:
        reason = _why_not_mpi(spec, site, image, where)
        return notes.choose("controller", "gloo", reason, image.how("horovod.controllers"))
    return notes.choose("controller", "mpi", "the only one in the image")


def _is_at_hand(spec: JobSpec, site: Site, image: ImageInfo, where: str) -> bool:
    """Whether MPI works without any setting, which of all pairs only PMIx with PMIx promises."""
    by_srun = spec.launcher in ("auto", "srun") and "srun" in capabilities(where).launchers
    fits = client(image) == "pmix" and "pmix" in site.mpi_types
    return by_srun and fits and (spec.mpi is None or spec.mpi.startswith("pmix"))


def _why_not_mpi(spec: JobSpec, site: Site, image: ImageInfo, where: str) -> str:
    if capabilities(where).one_machine:
        return "on one machine it needs no launcher"
    if "mpi" not in image.listed("horovod.controllers"):
        return "the only one in the image"
    if client(image) != "pmix":
        return "the image's MPI has no PMIx"
    if "pmix" not in site.mpi_types:
        return "srun offers no --mpi=pmix"
    return "it needs nothing of the launcher"


def choose(
    spec: JobSpec, site: Site, image: ImageInfo, launcher: str, controller: str, notes: Notes
) -> str | None:
    """Choose srun's --mpi=, and refuse what would not become one world."""
    nodes = spec.resources.nodes
    if launcher == "horovodrun" and nodes > 1:
        notes.refuse(
            f"--launcher horovodrun cannot reach {nodes} nodes: it starts ranks on the others by "
            "ssh, which leads out of the container",
            "horovodrun's own way to other hosts (horovod/runner/gloo_run.py, mpi_run.py)",
        )
    if launcher == "horovodrun" and controller == "mpi" and image.fact("mpi.flavour") == "mpich":
        notes.refuse(
            f"horovodrun does not know the mpirun of MPICH in {image.path.name}",
            f"{image.how('mpi.version')}; seen with 5.0.2: 'Unknown MPI implementation given'",
        )
    if launcher != "srun":
        _without_srun(spec, site, image, launcher, controller, notes)
        if spec.mpi:
            notes.warn(f"--mpi {spec.mpi} has no effect: {launcher} starts the ranks, not srun")
        return None
    return _srun_type(spec, site, image, controller, notes)


def _without_srun(
    spec: JobSpec, site: Site, image: ImageInfo, launcher: str, controller: str, notes: Notes
) -> None:
    if controller == "mpi" and client(image) == "none":
        notes.refuse(f"there is no MPI in {image.path.name}", image.how("mpi.version"))
    if launcher == "mpirun":
        _by_mpirun(spec, site, image, controller, notes)


def _by_mpirun(spec: JobSpec, site: Site, image: ImageInfo, controller: str, notes: Notes) -> None:
    """The mpirun is the host's; what it offers has to be what the image's MPI speaks."""
    if not site.host_mpi and site.profile:
        notes.choose("mpirun", "of the nodes", "not asked here; its MPI is taken to fit")
        return
    if not site.host_mpi:
        notes.refuse(
            "--launcher mpirun: there is no mpirun on this machine",
            "mpirun is not on the PATH, or does not say what it is",
            "module load openmpi",
        )
        return
    notes.choose("mpirun", site.host_mpi, "the one of this machine, expected on the nodes too")
    own = controller == "mpi" and not spec.host_mpi
    problem = _of_mpirun(site.host_mpi, image) if own else ""
    if problem:
        notes.refuse(problem, f"{image.how('mpi.flavour')}; {image.how('mpi.version')}")


def _of_mpirun(host_mpi: str, image: ImageInfo) -> str:
    """Say why the image's MPI does not join a world of this machine's mpirun, "" if it does."""
    flavour, _, version = host_mpi.partition(" ")
    offers, speaks = "pmix" if flavour == "openmpi" else "pmi2", client(image)
    if not speaks or speaks == "none":
        return ""
    if OFFERS[speaks] != offers:
        return (
            f"the MPI in {image.path.name} speaks {NAMES[speaks]}, and this machine's mpirun "
            f"({host_mpi}) offers {NAMES[offers]}: every rank would be alone"
        )
    own = image.fact("mpi.version")
    pair = own.partition(".")[0], version.partition(".")[0]
    if flavour == "openmpi" and own and pair[0] != pair[1] and pair not in JOINS:
        return (
            f"Open MPI {own} in {image.path.name} does not join a world that mpirun of Open MPI "
            f"{version} starts: every rank would be alone"
        )
    return ""


def _srun_type(spec: JobSpec, site: Site, image: ImageInfo, controller: str, notes: Notes) -> str:
    speaks = client(image)
    if spec.mpi:
        mpi = notes.choose("srun --mpi", spec.mpi, "as asked")
    elif controller == "gloo":
        mpi = notes.choose("srun --mpi", "none", "Gloo needs no PMI")
    else:
        wanted = OFFERS.get(speaks, "pmix")
        reason = f"what the image's MPI speaks ({NAMES.get(speaks, 'unknown: the usual')})"
        mpi = notes.choose("srun --mpi", wanted, reason, image.how("mpi.flavour"))
    problem = _of_type(mpi, site, image, controller)
    if problem:
        notes.refusals.append(problem)
    return mpi


def _of_type(mpi: str, site: Site, image: ImageInfo, controller: str) -> Refusal | None:
    """Return why `srun --mpi=TYPE` cannot work with this image and controller."""
    if site.mpi_types and mpi not in site.mpi_types:
        return Refusal(
            f"this Slurm has no --mpi={mpi}", f"srun --mpi=list: {', '.join(site.mpi_types)}"
        )
    speaks = client(image)
    if controller == "gloo" or not speaks:
        return None
    if speaks == "none":
        return Refusal(f"there is no MPI in {image.path.name}", image.how("mpi.version"))
    if mpi.partition("_")[0] == OFFERS[speaks]:
        return None
    offers = "no PMI" if mpi == "none" else f"{NAMES.get(mpi.partition('_')[0], mpi)}"
    evidence = f"{image.how('mpi.flavour')}; {image.how('pmix.version')}"
    return Refusal(
        f"the MPI in {image.path.name} speaks {NAMES[speaks]}, and srun --mpi={mpi} offers "
        f"{offers}: every rank would be alone",
        evidence,
    )
