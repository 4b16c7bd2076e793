"""Which of our images a GPU and a driver want: that with CUDA 12 or that with CUDA 13.

The table for people is in docs/guides/build.md.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..contract.versions import older
from ..core.machine import ARM64
from ..core.remedy import advice, change
from ..core.site import Site
from ..core.trainer import Framework
from . import partition
from .case import Case, DecisionLog, RankResources

CODE = "cuda.capabilities"  # the label with what Horovod has GPU code for
CUDA12, CUDA13 = "horovod_gpu.sif", "horovod_gpu13.sif"
# The labels cuda.driver.minimum of the two, and what the code in them begins and ends with.
DRIVER12, DRIVER13 = "525.60.13", "580.65.06"
OLDEST12, OLDEST13, BLACKWELL = "7.0", "7.5", "10.0"
# NVIDIA's table of compute capabilities, by names as nvidia-smi and sites write them (Gres types).
GENERATIONS = (
    (r"k80", "3.7"),
    (r"p100", "6.0"),
    (r"p40|p4", "6.1"),
    (r"v100s?|titan_?v", "7.0"),
    (r"t4|rtx_?20\d\d|2080_?ti|rtx_?[568]000", "7.5"),
    (r"a100|a30|a800", "8.0"),
    (r"a40|a16|a10g?|a2|rtx_?30\d\d|rtx_?a\d{4}", "8.6"),
    (r"l4|l40s?|rtx_?40\d\d", "8.9"),
    (r"g?h[128]00|h20", "9.0"),
    (r"g?b[12]00", "10.0"),
    (r"g?b300", "10.3"),
    (r"rtx_?50\d\d", "12.0"),
)
ADA, BLACKWELLS = re.compile(r"\bada\b"), re.compile(r"rtx_pro|blackwell")


@dataclass(frozen=True)
class Recommendation:
    """An image of ours, and why it fits."""

    image: str
    because: str

    @property
    def short(self) -> str:
        """As `runner build` takes it."""
        return self.image[: -len(".sif")].rpartition("_")[2]


def capability(kind: str) -> str:
    """Return the compute capability of a GPU, such as 9.0 of `h100` or `NVIDIA H100 PCIe`.

    Empty for a name that is not in the table.
    """
    name = re.sub(r"[\s-]+", "_", kind.strip().lower())
    words = re.sub("_", " ", name)
    if BLACKWELLS.search(name):
        return "12.0"
    if ADA.search(words):
        return "8.9"
    for pattern, number in GENERATIONS:
        if re.search(rf"(?:^|_)(?:{pattern})(?:_|$)", name):
            return number
    return ""


def recommended(
    kind: str, driver: str, framework: Framework | None = None, architecture: str = ""
) -> Recommendation | None:
    """Return the image for a GPU of that name and a driver; None where they do not decide.

    `kind` and `driver` are "" when not known; `framework` is the trainer's, as in its preset, and
    `architecture` the nodes'. For Arm there is one with CUDA 13 alone.
    """
    for_x86 = _for_x86(kind, driver, framework)
    return None if architecture == ARM64 and for_x86 and for_x86.image == CUDA12 else for_x86


def _for_x86(kind: str, driver: str, framework: Framework | None) -> Recommendation | None:
    number = capability(kind)
    if number and older(number, OLDEST12):
        return None
    if framework is Framework.TENSORFLOW:
        return Recommendation(CUDA12, "TensorFlow has no build with CUDA 13")
    if number and older(number, OLDEST13):
        return Recommendation(CUDA12, f"CUDA 13 has no code for compute capability {number}")
    if driver and older(driver, DRIVER13):
        if older(driver, DRIVER12):
            return None
        return Recommendation(CUDA12, f"CUDA 13 needs driver {DRIVER13}, and this one is {driver}")
    if number and not older(number, BLACKWELL):
        return Recommendation(CUDA13, f"it has code for compute capability {number}")
    if driver:
        return Recommendation(CUDA13, f"driver {driver} runs CUDA 13; for TensorFlow {CUDA12}")
    return None


def runs(number: str, code: tuple[str, ...]) -> str:
    """Return what of an image's code runs on a compute capability: native, PTX or "".

    `code` is the label cuda.capabilities, such as 8.0, 9.0 and 9.0+PTX. Machine code runs on the
    same major number from its own minor number on, PTX on every newer GPU.
    """
    major = number.partition(".")[0]
    fitting = [target for target in code if not older(number, target.partition("+")[0])]
    if any("+" not in target and target.partition(".")[0] == major for target in fitting):
        return "native"
    return "PTX" if any("+PTX" in target for target in fitting) else ""


def for_job(case: Case, resources: RankResources, kind: str) -> Recommendation | None:
    """Return what fits the job's GPUs; the driver of a machine that is not the node says little."""
    requires, architecture = case.spec.trainer.requires, case.image.architecture
    return recommended(_kind(case.site, resources, kind), case.site.driver, requires, architecture)


def _kind(site: Site, resources: RankResources, kind: str) -> str:
    """Return the GPUs' type as asked for, else the only one that the partition has."""
    chosen = partition.of(site, resources)
    kinds = {name for name, _ in chosen.gpus} if chosen else set()
    return kind or (kinds.pop() if len(kinds) == 1 else "")


def check_code(case: Case, resources: RankResources, wanted: str, log: DecisionLog) -> None:
    """Refuse an image that has no code for the job's GPUs; name a better one for slower code."""
    code, kind = case.image.listed(CODE), _kind(case.site, resources, wanted)
    number = capability(kind)
    best = runs(number, code) if code and number else "native"
    if best == "native":
        return
    better = for_job(case, resources, wanted)
    remedies = [change(image=better.image)] if better else []
    what = f"Horovod in {case.image.path.name} has no code for {kind} GPUs (capability {number})"
    if not best:
        others = advice("newer GPUs: --partition, --constraint or another TYPE in --gpus-per-node")
        log.refuse("gpu-code-missing", what, case.image.how(CODE), *remedies, others)
    elif better:
        log.warn(
            "gpu-code-ptx",
            f"{what} but PTX, which the driver compiles first; {better.because}",
            *remedies,
        )
