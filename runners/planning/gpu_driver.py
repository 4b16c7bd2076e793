"""The host's NVIDIA driver in the container: its version, whose library comes first, glibc."""

from __future__ import annotations

from ..contract.versions import older
from ..core.model import SchedulerName
from ..core.plan import ChoiceId, Provider
from ..core.remedy import advice, change
from ..schedulers import capabilities
from . import gpu_default, gpu_image
from .case import Case, DecisionLog, RankResources

# NVIDIA, "CUDA Compatibility", minor version compatibility: a program of any CUDA 12.x runs with
# the driver of 12.0 or a newer one. Our images carry it as a label.
MINIMUM = "cuda.driver.minimum"
# Apptainer 1.5.0: the folder of --nv's libraries moved behind the loader's default path (pull
# request 3293), and a variable moves it back (3346).
IMAGE_FIRST = "1.5.0"
HOST_FIRST = "PREPEND_LD_LIBRARY_PATH=/.singularity.d/libs"


def check(case: Case, resources: RankResources, scheduler: SchedulerName, log: DecisionLog) -> None:
    """Record what is known of driver and C library for a job with --nv.

    Refuses when the driver is too old and this machine, without a scheduler, is the node.
    The login node often has no GPU, or another driver than the nodes: there the node itself
    decides (rank/hardware.py).
    """
    image, site = case.image, case.site
    minimum = image.fact(MINIMUM)
    too_old = bool(minimum and site.driver and older(site.driver, minimum))
    if too_old and capabilities(scheduler).one_machine:
        older_one = gpu_image.for_job(case, resources, "")
        log.refuse(
            "driver-too-old",
            f"the NVIDIA driver of this machine is too old for the CUDA in {image.path.name}",
            f"it is {site.driver}; the image's label {MINIMUM} is {minimum}",
            *([change(image=older_one.image)] if older_one else []),
            advice("an image with an older CUDA, or a newer driver"),
            gpu_default.on_cpus(case, resources),
        )
    known = f"this machine has {site.driver}{', too old' if too_old else ''}; "
    here = known if site.driver else ""
    log.choose(ChoiceId.DRIVER, minimum or "any", f"{here}each node is checked when the job starts")
    _glibc(case, log)


def library_order(case: Case, log: DecisionLog) -> None:
    """Whose driver library is found first, the image's or the host's, by Apptainer's version."""
    version, image = case.site.apptainer, case.image
    library = image.fact("cuda.driver.library")
    if not version:
        return
    if HOST_FIRST in map("=".join, case.spec.env):
        log.choose(ChoiceId.GPU_LIBRARIES, Provider.HOST, case.why("env"))
    elif older(version, IMAGE_FIRST):
        log.choose(
            ChoiceId.GPU_LIBRARIES,
            Provider.HOST,
            f"Apptainer {version}; from {IMAGE_FIRST} on the image's",
        )
    else:
        log.choose(
            ChoiceId.GPU_LIBRARIES,
            Provider.IMAGE,
            f"Apptainer {version}; before {IMAGE_FIRST} the host's",
        )
        if library:
            what = f"{library} of {image.path.name} hides the driver's library of the nodes"
            log.warn(
                "driver-library-hidden",
                f"{what}: Apptainer {version} looks there first",
                change(env=HOST_FIRST),
            )


def _glibc(case: Case, log: DecisionLog) -> None:
    """Whether the libraries that --nv brings can need more than the image's C library has."""
    image_glibc, here = case.image.fact("glibc.version"), case.site.glibc
    if not image_glibc or not here:
        return
    if older(image_glibc, here):
        reason = "the image's is older: each node tries the driver's library when the job starts"
    else:
        reason = f"the image has {image_glibc}, so the libraries that --nv adds work"
    log.choose(ChoiceId.GLIBC, here, reason)
