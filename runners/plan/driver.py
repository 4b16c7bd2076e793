"""Does the NVIDIA driver fit the image: what can be said before the job is on its node.

The login node often has no GPU, or another driver than the nodes: there the node itself decides
(rank/gpu.py). Without a scheduler this machine is the node.
"""

from __future__ import annotations

from ..core.model import Decision, ImageInfo, Site
from ..injob.rank.gpu import older
from ..schedulers import capabilities
from .choices import Notes

# NVIDIA, "CUDA Compatibility", minor version compatibility: a program of any CUDA 12.x runs with
# the driver of 12.0 or a newer one. Our images carry it as a label.
MINIMUM = "cuda.driver.minimum"


def check(scheduler: str, site: Site, image: ImageInfo, notes: Notes) -> list[Decision]:
    """Return what is known of driver and C library for a job with --nv.

    Refuses when the driver is too old and this machine, without a scheduler, is the node.
    """
    minimum = image.fact(MINIMUM)
    too_old = bool(minimum and site.driver and older(site.driver, minimum))
    if too_old and capabilities(scheduler).one_machine:
        notes.refuse(
            f"the NVIDIA driver of this machine is too old for the CUDA in {image.path.name}",
            f"it is {site.driver}; the image's label {MINIMUM} is {minimum}",
            "an image with an older CUDA, or a newer driver",
        )
    return [_driver(site, minimum, too_old), *_glibc(site, image)]


def _driver(site: Site, minimum: str, too_old: bool) -> Decision:
    needed = f"{minimum} or newer" if minimum else "any"
    if not site.driver:
        return Decision("driver", needed, "each node is asked when the job starts")
    here = f"this machine has {site.driver}" + (", too old" if too_old else "")
    return Decision("driver", needed, f"{here}; each node is asked when the job starts")


def _glibc(site: Site, image: ImageInfo) -> list[Decision]:
    """Whether the libraries that --nv brings can need more than the image's C library has."""
    own = image.fact("glibc.version")
    if not own or not site.glibc:
        return []
    if older(own, site.glibc):
        reason = "the image's is older: each node tries the driver's library when the job starts"
    else:
        reason = f"the image has {own}, so what --nv brings from here fits"
    return [Decision("glibc", site.glibc, reason)]
