"""The container that the trainer runs in: its image, binds and other options."""

from __future__ import annotations

import re

from .draft import LaunchLine
from .programs import APPTAINER, DOCKERS, OF_DIRECTIVE, Option
from .script import Script
from .step import Layer
from .words import Word, compose, join, literal

BINDS = ("bind", "volume", "volumes", "container-mounts")
GPUS = ("nv", "rocm", "nvccli", "gpu")
OF_SITE = ("module", "mpi", "cuda-mpi", "nccl")  # how options begin that a profile decides
INSIDE = ("pwd", "cwd", "env")  # what is read elsewhere
EMPTY = "the script names none"
SAVED = "`docker save` it, then `apptainer build FILE.sif docker-archive:FILE.tar`"
OF_IMAGES = re.compile(
    r"\bdocker (?:image |buildx |container )?(build|load|import|tag|commit|push)\b(.*)"
)
TAGS = re.compile(r"(?:-t|--tag)[ =]?(\S+)")
PYXIS = "pyxis"  # of which Apptainer runs the registries' images, not Enroot's files
FROM_REGISTRY = "from its registry: `apptainer build FILE.sif docker://NAME`"


def add(draft: LaunchLine, script: Script, layer: Layer, image: Word) -> None:
    """Add image, binds and GPUs of a container; what the launch has no option for is lost."""
    if layer.name not in (*DOCKERS, *APPTAINER, PYXIS):
        draft.add("runtime", layer.name)
    image = _image(draft, script, layer, image)
    draft.add("image", image)
    if modules := script.job.text("module"):
        text = f"--module={modules}: the site's profile decides it"
        draft.leave_out(script.job.line_of("module"), text)
    elif image.text.startswith("<image of "):
        text = f"{image.text}: the image, mounts and variables that this file names"
        draft.fill_in(image.line, text)
    of_shifter = script.job.all("volume") if layer.name == "shifter" else ()
    for option in (*of_shifter, *layer.options):
        if option.name in BINDS and option.value:
            add_binds = _docker_bind if layer.name in DOCKERS else binds
            add_binds(draft, option.value, layer.name)
        elif option.name in GPUS or (layer.name in DOCKERS and option.name == "gpus"):
            _gpus(draft, script, layer, option)
        elif layer.name in APPTAINER:
            _of_apptainer(draft, option)
        else:
            _of_others(draft, layer.name, option, image)


def _image(draft: LaunchLine, script: Script, layer: Layer, image: Word) -> Word:
    """Return the image as the launch names it, or a place to fill in."""
    if image.text == OF_DIRECTIVE:
        image = script.job.get("image") or literal("", layer.line)
    built_here = layer.name in DOCKERS and _is_own(script, image.text)
    if built_here or not image.pieces:
        why = f"{image.text} is an image of this machine's docker; {SAVED}" if built_here else EMPTY
        draft.fill_in(layer.line, f"<image>: {why}")
        return literal("<image>", layer.line)
    if layer.name == PYXIS:
        return _of_pyxis(draft, image)
    return compose(("docker://", *image.pieces), image.line) if layer.name in DOCKERS else image


def _of_pyxis(draft: LaunchLine, image: Word) -> Word:
    """Return an image, in pyxis REGISTRY#NAME:TAG, as Apptainer names it; a file is to fill in."""
    name = image.text
    if name.startswith("<image of "):
        return image
    if name.startswith(("/", ".", "~", "$")) or name.endswith(".sqsh"):
        what = "may be" if name.startswith("$") else "is"
        draft.fill_in(image.line, f"<image>: {name} {what} a file of Enroot's; {FROM_REGISTRY}")
        return literal("<image>", image.line)
    pieces = [part.replace("#", "/") if isinstance(part, str) else part for part in image.pieces]
    return compose(([] if "://" in name else ["docker://"]) + pieces, image.line)


def _gpus(draft: LaunchLine, script: Script, layer: Layer, option: Option) -> None:
    name, line = option.name, option.line
    if name == "gpus" and option.text != "all":
        draft.lose(line, f"{layer.name} --gpus {option.text}: the GPUs are those of a rank")
    requested = script.job.wants_gpus or draft.has("gpus", "gpus-per-node", "gpus-per-task")
    if requested or script.job.text("system") or "gpu" in draft.text_of("gres"):
        draft.leave_out(line, f"--{name}: runner adds it where GPUs are requested")
    elif script.job.exclusive:
        draft.add("rocm" if name == "rocm" else "nv")  # of whole nodes, whose GPUs nobody requests
    else:
        text = "the script requests no GPU: add --gpus-per-node N where it needs them"
        draft.look_at(line, f"--{name} is left out: {text}")


def _of_apptainer(draft: LaunchLine, option: Option) -> None:
    name, value, line = option.name, option.value, option.line
    if name == "cleanenv":
        draft.leave_out(line, "--cleanenv: runner keeps the host's Python variables out itself")
    elif name == "writable":
        draft.lose(line, "--writable: ranks that write to one image destroy it")
    elif name not in INSIDE:
        pieces = (f"--{name}=", *value.pieces) if value else (f"--{name}",)
        draft.add("apptainer-arg", compose(pieces, line))


def _of_others(draft: LaunchLine, runtime: str, option: Option, image: Word) -> None:
    name, line = option.name, option.line
    if name == "annotations":
        draft.lose(line, f"annotations of {image.text}'s environment: {option.text}")
    elif name in ("entrypoint", "mount", "env-file"):
        draft.lose(line, f"{runtime} --{name} {option.text}")
    elif name.startswith(OF_SITE) and runtime != PYXIS:
        text = f"--{name}={option.text}".rstrip("=")
        draft.leave_out(line, f"{text}: the site's profile decides it")


def _is_own(script: Script, image: str) -> bool:
    """Whether a script makes an image of docker's, and does not push it."""
    name, built_here = image.removesuffix(":latest"), False
    for verb, rest in (
        pair for command in script.commands for pair in OF_IMAGES.findall(command.text)
    ):
        names = TAGS.findall(rest) if verb == "build" else rest.split()[-1:]
        if name in (tag.removesuffix(":latest") for tag in names):
            built_here = verb != "push" and "--push" not in rest
        built_here = built_here or verb == "load"  # of a file that names its images
    return built_here


def _docker_bind(draft: LaunchLine, value: Word, runtime: str) -> None:
    """Add a bind without what Apptainer does not know, which is lost."""
    source, *rest = value.split(":")
    if not rest or not source.text.startswith(("/", ".", "~", "$")):
        draft.lose(value.line, f"{runtime} --volume {value.text}: a volume of docker's own")
        return
    flags = rest[1].text.split(",") if rest[1:] else []
    kept = [flag for flag in flags if flag in ("ro", "rw")]
    if kept != flags:
        others = ",".join(flag for flag in flags if flag not in kept)
        draft.lose(value.line, f"{runtime} --volume {value.text}: its {others}")
    draft.add("bind", join([source, rest[0], *map(literal, kept)], ":", value.line))


def binds(draft: LaunchLine, value: Word, runtime: str) -> None:
    """Add binds but for the current folder, which runner binds itself, and for none."""
    for bind in value.split("," if runtime in (*APPTAINER, PYXIS) else ";"):
        alone = len(bind.split(":")) == 1
        if not (alone and bind.text.strip("{}$") in ("", "PWD", ".", "SLURM_SUBMIT_DIR", "HOME")):
            draft.add("bind", bind)
