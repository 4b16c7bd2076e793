"""A SIF as an OCI image: its files as layers, its environment, run script and labels as settings.

Format: OCI image specification 1.1 (config.md). The trainers are a layer of their own, so that an
edited one uploads little. What Apptainer itself keeps in the tree is left out: it creates that
again from the settings when it pulls the image.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from containers import append_trainers, build_record

from ..contract.unsquashfs import unsafe_unsquashfs
from ..core import disk_space, machine, shell, sif, untrusted_folder
from ..core.errors import Refused, SystemFault
from ..core.progress import Progress
from ..core.text import utc
from ..registry import oci, oci_layer
from ..registry.oci import Layout
from ..registry.registry_client import Blob
from .facts import probe_image
from .store import store

# Apptainer's and Singularity's own, in the root of each image.
OWN = {*(".exec", ".run", ".shell", ".singularity.d", ".test"), "environment", "singularity"}
RUNSCRIPT = "runscript"  # of the image that was pushed first, should this one come from a registry
# Prints what the image's own scripts set, and nothing of the user's: proxies may hold a password.
# 10: of the OCI image that it was made from; 90: %environment; 91: what %post added.
ENVIRONMENT = """\
for file in /.singularity.d/env/10-*.sh /.singularity.d/env/9[01]-*.sh; do
    [ ! -f "$file" ] || . "$file"
done
exec env -0
"""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
OF_THE_SHELL = ("PWD", "OLDPWD", "SHLVL", "_")
UNPACKED = 6  # an unpacked image and its layers, of the size of the SIF: ours take 5


@contextmanager
def layout(image: Path, progress: Progress) -> Iterator[Layout]:
    """Yield a SIF as an OCI image, in a temporary folder.

    Raises Refused without room, SystemFault when the image cannot be read or run.
    """
    settings = _settings(image)
    with store.workplace(f"oci {image}", progress, "makes an OCI image of the same image") as work:
        disk_space.check(work, UNPACKED * image.stat().st_size, "the unpacked image")
        with disk_space.writing(work / image.name):
            yield _made(image, settings, work, progress)


def _made(image: Path, settings: dict[str, Any], work: Path, progress: Progress) -> Layout:
    progress.begin(f"unpacking {image.name}")
    root, blobs = work / "root", work / oci.BLOBS
    _unpack(image, work / "squashfs", root)
    blobs.mkdir(parents=True)
    layers = []
    for name, paths in _layers(root):
        progress.begin(f"packing the layer of the {name}")
        made = oci_layer.write(root, paths, work / "layer", progress)
        (work / "layer").rename(blobs / made.digest.partition(":")[2])
        layers.append((name, made))
    rootfs = {"type": "layers", "diff_ids": [made.tar for _, made in layers]}
    history = [{"created_by": f"runner push: {name}"} for name, _ in layers]
    content = {**settings, "rootfs": rootfs, "history": history}
    config = oci.write_document(blobs, content, oci.CONFIG)
    packed = [Blob(made.digest, made.size, oci.LAYER) for _, made in layers]
    manifest = {
        "config": oci.descriptor(config),
        "layers": [oci.descriptor(blob) for blob in packed],
    }
    return Layout(work, oci.write_manifest(blobs, manifest), (*packed, config))


def _unpack(image: Path, squashfs: Path, root: Path) -> None:
    """Write the tree of a SIF; unsquashfs finds it at an offset only since 4.4 (RHEL 8 has 4.3)."""
    if not _built_here(image):
        _check_unsquashfs()
    append_trainers.extract_file_system(image, squashfs)
    argv = ["unsquashfs", "-no-xattrs", "-no-progress", "-dest", str(root), str(squashfs)]
    # It keeps to the umask, and the digest must not depend on who unpacks.
    done = shell.watch(["sh", "-c", 'umask 022; exec "$@"', "sh", *argv], lambda: None)
    if done.code:
        raise SystemFault(f"unsquashfs cannot unpack {image}", done.out.strip(), id="unpack-failed")
    squashfs.unlink()
    with suppress(FileExistsError):
        _copy_runscript(root)


def _built_here(image: Path) -> bool:
    """Whether this user built the image, and so knows what is in it."""
    if build_record.read(image) is None:
        return False
    files = (image, build_record.path(image))
    return all(file.stat().st_uid == os.geteuid() for file in files)


def _check_unsquashfs() -> None:
    done = shell.run(["unsquashfs", "-version"])
    if danger := unsafe_unsquashfs(done.out + done.err):
        raise Refused(
            "the image is not unpacked: it could write into your files",
            danger,
            "put squashfs-tools 4.5.1 or newer first on the PATH\n"
            "push it to oras://, which takes the file as it is",
            id="unsquashfs-unsafe",
        )


def _copy_runscript(root: Path) -> None:
    """Copy the image's run script to where the OCI image starts; raise FileExistsError."""
    try:
        script = untrusted_folder.open_file(root, ".singularity.d/runscript")
    except OSError:
        return  # there is none, or a link, which could lead out of the image
    with script, untrusted_folder.folder(root) as folder:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        status = os.fstat(script.fileno())
        with open(os.open(RUNSCRIPT, flags, 0o600, dir_fd=folder), "wb") as target:
            shutil.copyfileobj(script, target)
            os.fchmod(target.fileno(), stat.S_IMODE(status.st_mode))
            target.flush()
            os.utime(target.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))


def _layers(root: Path) -> Iterator[tuple[str, Iterator[str]]]:
    names = {*untrusted_folder.names(root)} - OWN - {append_trainers.FOLDER}
    yield "environment", oci_layer.below(root, *names)
    if untrusted_folder.is_folder(root, append_trainers.FOLDER):
        yield "trainers", oci_layer.below(root, append_trainers.FOLDER)


def _settings(image: Path) -> dict[str, Any]:
    script = ["env", "-i", f"PATH={PATH}", "/bin/sh", "-c", ENVIRONMENT]
    done = probe_image.run(image, script, probe_image.SECONDS)
    if done.code:
        raise SystemFault(f"nothing can be run in {image}", done.err, id="oci-image-does-not-run")
    lines = [line for line in done.out.split("\0") if line]
    head, labels = sif.read(image)[0], sif.labels(image) or {}
    return {
        "created": utc(head.created),
        "architecture": sif.architecture(sif.objects(image)) or machine.architecture(),
        "os": "linux",
        "config": {
            "Entrypoint": [f"/{RUNSCRIPT}"],
            "Env": sorted(line for line in lines if line.partition("=")[0] not in OF_THE_SHELL),
            "Labels": labels,
        },
    }
