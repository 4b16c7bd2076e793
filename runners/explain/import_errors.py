"""An import fails: a module or a library is missing, does not fit, or is not the image's own."""

from __future__ import annotations

import difflib
import os
import re
from shlex import quote

from ..contract import log_text
from ..core.remedy import Remedy, advice, change, shell_line
from .explanation import Explanation, Precedence, Signature
from .facts import Facts, Line, LogPattern
from .findings import TRACEBACK_LINE, certain, likely, who
from .first_failure import without_ignored
from .fixes import edit

MISSING = re.compile(r"(?:ModuleNotFound|Import)Error: No module named '?(?P<name>[\w.]+)")
IMPORTING = re.compile(r"(?:ImportError|AttributeError|ModuleNotFoundError|SystemError): ")
# Modules that trainers often want; most packages of the index are called as their modules are.
ALIKE = """
accelerate albumentations datasets deepspeed einops evaluate h5py jax lightning matplotlib mlflow
monai nltk numba numpy omegaconf optuna pandas peft pyarrow pytorch_lightning requests rich
safetensors scipy seaborn sentencepiece spacy tensorboard tensorboardX tensorflow timm tokenizers
torch torchaudio torchmetrics torchvision tqdm transformers wandb webdataset xarray zarr
"""
PACKAGES = {
    **{name: name for name in ALIKE.split()},
    "cv2": "opencv-python-headless",
    "dotenv": "python-dotenv",
    "hydra": "hydra-core",
    "PIL": "pillow",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}
# Compiled against a torch with CUDA on the package index
FOR_CUDA = ("torchaudio", "torchvision")
HOME = re.compile(r"/\.local/lib/python")  # one of conda's is a Python of its own
# Lmod's words, those of Environment Modules, bash's where the shell has no `module`, and our own.
NOT_LOADED = LogPattern(log_text.NO_MODULE, rf"^{log_text.NO_MODULE}(\S+): ")
NO_COMMAND = LogPattern("module: command not found")
BY_FOLDER = "Name that environment's folder, and activate none: `--image FOLDER`"
NOT_ACTIVATED = LogPattern("has not been properly configured to use 'conda activate'")


def import_leak(facts: Facts) -> Explanation | None:
    """Python took a package from the user's home, which is not the image's."""
    leaked = _from_home(facts)
    if leaked is None or not IMPORTING.search(facts.error):
        return None
    elsewhere = f"not the {facts.environment}'s: {leaked.text.strip()}"
    cause = f"{who(facts)} imported a package from your home folder, {elsewhere}"
    by_variable = "PYTHONPATH" in facts.plan.env or not facts.has_image
    fix = change(env="PYTHONPATH=") if by_variable else change(apptainer_arg="--no-home")
    because = "the import that failed was within that folder"
    return certain(facts, cause, fix, leaked, because=because)


def _from_home(facts: Facts) -> Line | None:
    """Return the innermost line of the error's own traceback, if it is of a package in a home."""
    lines = [*without_ignored(facts.log.last)]
    ends = [at for at, line in enumerate(lines) if facts.error in line.text]
    for line in reversed(lines[: ends[-1] if ends else None]):
        if TRACEBACK_LINE.match(line.text):
            return line if HOME.search(line.text) else None
    return None


def python_module(facts: Facts) -> Explanation | None:
    """The trainer imports what the image does not have.

    Only well-known names are offered for installing: behind others may be anybody's package.
    """
    match = MISSING.search(facts.error)
    if not match:
        return None
    name = match["name"].partition(".")[0]
    cause = f"Python in the {facts.environment} {facts.image} has no module {match['name']}"
    if name != match["name"]:  # Python would name the package alone if that was not there
        cause += f": its {name} is another one, or of another version, than the code expects, "
        cause += f"or {match['name']} is a package of its own that is not installed"
        return certain(facts, cause, edit(facts))
    if name in FOR_CUDA and "cpu" in os.path.basename(facts.image):
        cause += (
            "; the package index has it for CUDA only, which does not work with a CPU-only torch"
        )
        return certain(facts, cause, edit(facts))
    not_activated = None if facts.has_image else facts.line(NOT_ACTIVATED)
    if name in PACKAGES and not_activated:
        cause += "; the script's `conda activate` failed, and that environment may have it"
        because = "conda said so before"
        return likely(facts, cause, advice(BY_FOLDER), not_activated, because=because)
    if name in PACKAGES:
        return certain(facts, cause, _install(facts, PACKAGES[name]))
    near = difflib.get_close_matches(name, PACKAGES, n=1, cutoff=0.75)
    cause += f"; did you mean {near[0]}?" if near else ", and the trainer's folder has none"
    return certain(facts, cause, edit(facts))


def _install(facts: Facts, package: str) -> Remedy:
    """Return how to have the package: in an image of one's own, or in the environment itself."""
    if not facts.has_image:
        return change(first=f"{quote(facts.image_file)}/bin/python -m pip install {package}")
    build = f"runner build --from {quote(facts.image)} -r more.txt -o more.sif"
    return change(image="./more.sif", first=f"echo {package} >> more.txt && {build}")


def environment_module(facts: Facts) -> Explanation | None:
    seen = None if facts.first else facts.match(NOT_LOADED)
    if not seen:
        return None
    line, name, shell = seen[0], seen[1][1], facts.line(NO_COMMAND)
    cause = f"the module {name} could not be loaded on the node"
    cause += ": its shells have no `module` command" if shell else ""
    names = " ".join(map(quote, name.split("|")))
    fix = shell_line(f"module spider {names} || module avail")
    fix = change(leave_out=["module"]) if shell else fix
    before = (shell,) if shell else facts.log.last[-6:-1]
    because = "the job's script ended there, before any rank"
    return certain(facts, cause, fix, *before, line, because=because)


SIGNATURES = (
    Signature("import-leak", import_leak, Precedence.HOME),
    Signature(
        "environment-module-missing",
        environment_module,
        Precedence.HOST_SOFTWARE,
        (NOT_LOADED, NO_COMMAND),
    ),
    Signature("python-module-missing", python_module, Precedence.IMPORT + 20, (NOT_ACTIVATED,)),
)
