"""Images that are no files: virtual or conda environments, names in a runtime's own store.

An environment that `runner build env` made says of itself, as an image does by its labels, what it
holds: in a file in its folder are the facts under the names of our images' labels, the modules with
which Horovod was compiled, and the MPI library with its SHA-256.

A launch that names no image has the Python of its modules, or the active environment, that of
VIRTUAL_ENV or CONDA_PREFIX. Modules are loaded in a login shell, as in a job. This machine answers
for the nodes: there the job takes the Python that the modules bring, at whatever path.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from containers import host_tools

from ...core import digest, shell
from ...core.diagnosis import Diagnosis, Severity
from ...core.errors import NotFound, SystemFault, UsageError
from ...core.files import read_versioned, write_versioned
from ...core.model import ACTIVE, BY_MODULES, ImageInfo, RuntimeName
from ...core.remedy import change
from ...runtimes import LEAKS, RUNTIMES
from . import digest_cache, probe_image

NAME, FORM = "horovod-runner.json", 1
MODULES, LIBRARY, SHA256 = "modules", "mpi.library", "mpi.sha256"
INTO = "horovod.into"  # it was there before its Horovod, and has its own versions
# Facts of now, beside the labels of then.
LIBRARY_NOW, MODULES_GONE = "mpi.sha256.now", "modules.gone"
GONE = "gone"
# $@: modules, in their order, since one may bring the path on which the next is found (Lmod's
# hierarchies). Prints those that cannot be loaded; none where there is no such command here.
LOAD = """\
type module > /dev/null 2>&1 || exit 0
for name; do module load "$name" > /dev/null 2>&1 || printf '%s\\n' "$name"; done"""
SYSTEM = ("/bin", "/usr/bin", "/usr/local/bin")
# Of the variables that modules set, those that decide which packages and libraries are found.
PATHS = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "EBPYTHONPREFIXES")

WAYS = "activate a virtual or conda environment\n--module NAME, of a Python\n--image DIR"


def is_one(folder: Path) -> bool:
    """Whether a folder has a Python of its own, and is not an unpacked image."""
    return (
        os.access(folder / "bin" / "python", os.X_OK) and not (folder / ".singularity.d").exists()
    )


def known(folder: Path) -> bool:
    """Whether the facts are remembered, so that asking takes no time."""
    return bool(digest_cache.recall_content(_key(folder)))


def facts(folder: Path) -> dict[str, str]:
    """Return the facts under the names of our images' labels; remembered until packages change.

    MPI is what the user's PATH has here, as the job's modules should have it. Raises SystemFault
    when the Python does not run.
    """
    return digest_cache.content(_key(folder), lambda: probe(folder, os.environ))


def probe(folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the facts without remembering them; `environ` has the MPI. Raises SystemFault."""
    path = f"{folder}/bin:{environ.get('PATH', os.defpath)}"
    env = {**environ, "PATH": path}
    for name in ("PYTHONPATH", "PYTHONHOME"):
        env.pop(name, None)
    return probe_path(env, str(folder))


def probe_path(environ: Mapping[str, str], where: str) -> dict[str, str]:
    """Return the facts of the Python that `environ` has on its PATH. Raises SystemFault.

    `where` names it in errors.
    """
    done = shell.run(probe_image.script(), env=environ, timeout=probe_image.SECONDS)
    facts = probe_image.parse(done.out) if "== end" in done.out else {}
    if "python.version" not in facts:
        raise SystemFault(f"the Python in {where} does not run", done.err, id="python-broken")
    if facts.get("horovod.version") != "none":
        argv = probe_image.build_script()
        built = shell.run(argv, env=environ, timeout=probe_image.SECONDS)
        facts.update(probe_image.parse_build(built.out))
    return facts


def _key(folder: Path) -> str:
    """Name the environment by its installed packages, its Python and the MPI on the PATH."""
    parts = [str(folder), str((folder / "bin" / "python").resolve())]
    parts.append(str(shutil.which("mpirun")))
    return key_of(parts, folder.glob("lib/python3*/site-packages"))


def key_of(parts: Sequence[str], folders: Iterable[Path]) -> str:
    """Return a key of these words, of the packages in the folders, and of what is asked of them."""
    packages = [package for folder in folders for package in sorted(folder.glob("*-info"))]
    stamps = [f"{package} {package.stat().st_mtime_ns}" for package in packages]
    return "environment-" + digest.of_text("\n".join([*parts, *stamps, probe_image.key()]))


def image(name: str | None, runtime: RuntimeName) -> ImageInfo:
    """Return what `name` means to a runtime that takes no image files; nothing is pulled."""
    if not name:
        what = "a folder" if runtime is RuntimeName.NONE else "a name"
        raise UsageError(
            f"no image was given; for --runtime {runtime} it is {what}", id="image-not-given"
        )
    return _folder(name) if runtime is RuntimeName.NONE else _stored(name, runtime)


def _folder(name: str) -> ImageInfo:
    path = Path(name).expanduser().absolute()
    if not is_one(path):
        raise NotFound(
            f"--runtime none: {name} is not the folder of a virtual or conda environment",
            f"{path / 'bin' / 'python'} is not there",
            "python3 -m venv FOLDER, on a file system that the nodes see",
            id="environment-not-found",
        )
    labels = read_labels(path)
    return ImageInfo(path, labels, inspected=facts_now(labels))


def _stored(name: str, runtime: RuntimeName) -> ImageInfo:
    """Return an image by its name; only the runtime on a node can look into it."""
    plain = name.replace("docker://", "docker:" if runtime is RuntimeName.SHIFTER else "")
    if "://" in plain or any(char.isspace() for char in plain):
        raise UsageError(
            f"{name} is not a name in the image store of {runtime}",
            remedy=f"{RUNTIMES[runtime].pull} NAME:TAG, then --image NAME:TAG",
            id="store-name-malformed",
        )
    what = f"it is in the store of {runtime}, and not looked into before the job"
    return ImageInfo(Path(plain), problem=Diagnosis("image-in-store", Severity.NOTE, what))


def write_labels(
    folder: Path, facts: Mapping[str, str], modules: Sequence[str], library: str
) -> dict[str, str]:
    """Write what is known of it, when it is complete; return that."""
    labels = {**facts, MODULES: " ".join(modules)}
    if library:
        labels |= {LIBRARY: library, SHA256: digest.sha256(Path(library))}
    write_versioned(folder / NAME, FORM, {"labels": labels})
    return labels


def read_labels(folder: Path) -> dict[str, str]:
    """Return the labels; none where we did not make it. Raises Refused for another form."""
    record = read_versioned(folder / NAME, FORM)
    return dict(record["labels"]) if record else {}


def facts_now(labels: Mapping[str, str]) -> dict[str, str]:
    """Return what has become of the MPI library and of the modules since it was made."""
    facts = {}
    if library := labels.get(LIBRARY):
        exists = os.path.isfile(library)
        facts[LIBRARY_NOW] = digest.sha256(Path(library)) if exists else GONE
    gone = _not_loadable(labels.get(MODULES, "").split())
    return {**facts, **({MODULES_GONE: " ".join(gone)} if gone else {})}


def _not_loadable(modules: Sequence[str]) -> list[str]:
    """Return the modules that a login shell here cannot load one after the other."""
    if not modules:
        return []
    done = shell.run(["bash", "-lc", LOAD, "bash", *modules], timeout=probe_image.SECONDS)
    return done.out.split()


@dataclass(frozen=True)
class LoadedModules:
    """What the job's script loads."""

    names: tuple[str, ...] = ()
    use: tuple[str, ...] = ()
    purge: bool = False

    def environ(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the environment with the modules loaded. Raises UsageError."""
        clean = {name: text for name, text in environ.items() if name not in LEAKS}
        before = ["module purge"] if self.purge else []
        before += [f"module use {shlex.quote(folder)}" for folder in self.use]
        return host_tools.with_modules(self.names, clean, before)


def unnamed(
    modules: LoadedModules, runtime: RuntimeName | None, environ: Mapping[str, str] = os.environ
) -> ImageInfo:
    """Return the environment of a launch that names no image: of modules, else the active one.

    Modules without a framework are meant only where there is no such environment.
    A virtual environment is often made with the Python of a module, which then has no framework.
    Where no `runtime` was asked for, an active environment without a framework is not meant, as
    that in which runner is installed. Raises UsageError, with what was looked at, where there is
    none.
    """
    by_modules = _of_modules(modules, environ) if modules.names else None
    if by_modules and _has_framework(by_modules):
        return by_modules
    active = _active(environ)
    if active and (runtime is RuntimeName.NONE or _has_framework(active)):
        return active
    if by_modules:
        return by_modules
    looked_at = "\n".join(_looked_at(modules, active))
    if runtime is RuntimeName.NONE:
        raise UsageError("no image was given", looked_at, WAYS, id="image-not-given")
    raise UsageError(
        "no image was given", looked_at, change(image="horovod_cpu.sif"), id="image-not-given"
    )


def _looked_at(modules: LoadedModules, active: ImageInfo | None) -> list[str]:
    lines = []
    if modules.names:
        lines.append(f"--module {' '.join(modules.names)} brings no Python")
    if active:
        lines.append(f"{active.brought_by}={active.path} has neither torch nor TensorFlow")
    return lines


def _active(environ: Mapping[str, str]) -> ImageInfo | None:
    for name in ACTIVE:
        folder = Path(environ.get(name) or "/nowhere")
        if is_one(folder):
            active = replace(_folder(str(folder)), brought_by=name)
            known = {} if active.ours else facts(active.path)
            return replace(active, inspected={**known, **active.inspected})
    return None


def _of_modules(modules: LoadedModules, environ: Mapping[str, str]) -> ImageInfo | None:
    """Return what the modules give; None where their python3 is the system's, ours or active."""
    loaded = modules.environ(environ)
    python = shutil.which("python3", path=loaded.get("PATH", os.defpath))
    of_active = [f"{environ[name]}/bin" for name in ACTIVE if environ.get(name)]
    if python is None or os.path.dirname(python) in (*SYSTEM, *of_active):
        return None
    key = _key_of_modules(python, loaded)
    known = digest_cache.content(key, lambda: probe_path(loaded, python))
    brought = ImageInfo(Path(python).parent.parent, inspected=known, brought_by=BY_MODULES)
    runners_own = os.path.dirname(python) == os.path.join(sys.prefix, "bin")
    return None if runners_own and not _has_framework(brought) else brought


def _key_of_modules(python: str, loaded: Mapping[str, str]) -> str:
    parts = [f"{name}={loaded.get(name, '')}" for name in PATHS]
    folders = [Path(text) for text in loaded.get("PYTHONPATH", "").split(":") if text]
    packages = Path(python).parent.parent.glob("lib/python3*/site-packages")
    return key_of(parts, [*folders, *packages])


def _has_framework(image: ImageInfo) -> bool:
    return any(
        image.fact(f"{name}.version") not in ("", "none") for name in ("torch", "tensorflow")
    )
