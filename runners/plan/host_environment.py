"""What `runner build env` made: its modules are loaded, and its MPI has to be the same."""

from __future__ import annotations

from ..core.model import ImageInfo
from ..core.remedy import command
from .case import Case, Log


def choose(case: Case, log: Log) -> Case:
    """Return the case with the modules that Horovod was compiled with; refuse another MPI."""
    image, asked = case.image, case.spec.modules
    if log.chosen("runtime") != "none":
        return case
    _check(image, log)
    own = {name.partition("/")[0] for name in asked}
    names = [n for n in image.fact("modules").split() if n.partition("/")[0] not in own]
    if not names:
        return case
    log.choose("module", " ".join(names), "Horovod was compiled with it", image.how("modules"))
    return case.asking(modules=(*names, *asked))


def _check(image: ImageInfo, log: Log) -> None:
    """Compare what is there now with what the environment's label says."""
    modules = [f"--module={name}" for name in image.fact("modules").split()]
    again = command("runner", "build", "env", f"{image.path}.new", *modules)
    if gone := image.fact("modules.gone"):
        what = f"the Horovod in {image.path} was compiled with modules that are not here any more"
        log.refuse(what, f"module load fails: {gone}", again)
    then, now = image.fact("mpi.sha256"), image.fact("mpi.sha256.now")
    library = image.fact("mpi.library")
    if now == "gone":
        what = f"the MPI with which the Horovod in {image.path} was compiled is gone"
        log.refuse(what, f"{library} is not there", again)
    elif now != then:
        what = f"the MPI changed after the Horovod in {image.path} was compiled"
        log.refuse(what, f"{library} has SHA-256 {now[:12]}..., not {then[:12]}...", again)
