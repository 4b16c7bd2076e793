"""Does the NVIDIA driver fit the image: what can be said before the job is on its node.

The login node often has no GPU, or another driver than the nodes: there the node itself decides
(rank/gpu.py). Without a scheduler this machine is the node.
"""

from __future__ import annotations

from ..core import gpus
from ..core.remedy import advice, change
from ..injob.rank.gpu import older
from .case import Case
from .log import Log

# NVIDIA, "CUDA Compatibility", minor version compatibility: a program of any CUDA 12.x runs with
# the driver of 12.0 or a newer one. Our images carry it as a label.
MINIMUM = "cuda.driver.minimum"


def check(case: Case, log: Log) -> None:
    """Note what is known of driver and C library for a job with --nv.

    Refuses when the driver is too old and this machine, without a scheduler, is the node.
    """
    image, site = case.image, case.site
    minimum = image.fact(MINIMUM)
    too_old = bool(minimum and site.driver and older(site.driver, minimum))
    if too_old and log.scheduler.one_machine:
        log.refuse(
            f"the NVIDIA driver of this machine is too old for the CUDA in {image.path.name}",
            f"it is {site.driver}; the image's label {MINIMUM} is {minimum}",
            advice("an image with an older CUDA, or a newer driver"),
            change(leave_out=[*gpus.asked(case.resources), "nv"]),
        )
    here = f"this machine has {site.driver}{', too old' * too_old}; " if site.driver else ""
    log.choose("driver", minimum or "any", f"{here}each node is asked when the job starts")
    _glibc(case, log)


def _glibc(case: Case, log: Log) -> None:
    """Whether the libraries that --nv brings can need more than the image's C library has."""
    own, here = case.image.fact("glibc.version"), case.site.glibc
    if not own or not here:
        return
    if older(own, here):
        reason = "the image's is older: each node tries the driver's library when the job starts"
    else:
        reason = f"the image has {own}, so what --nv brings from here fits"
    log.choose("glibc", here, reason)
