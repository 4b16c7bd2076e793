"""Makes a release of built images and puts it where it can be pulled from; mirrors one.

The list comes last: until then nobody finds the release.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from containers.catalogue import IMAGES

from ...core import atomic, disk_space, places, sif
from ...core.digest import digest_of, sha256
from ...core.errors import NotFound, NotVerified, Refused
from ...core.progress import Listener, Progress
from .. import push
from ..registry import oci, sources
from ..registry.api import Blob
from ..trust import pgp
from . import prebuilt, release
from .release import Folder, InRegistry, Release, ReleasedImage, Source, Verified

COMMIT = re.compile("[0-9a-f]{40}")
LABELS = "org.opencontainers.image."
PUSH = "pull,push"
EMPTY_TYPE = "application/vnd.oci.empty.v1+json"


class Published(NamedTuple):
    """An image of a release: its digest, and what `runner pull` takes for it."""

    digest: str
    uri: str


class Mirrored(NamedTuple):
    """A verified release, and where its copy is."""

    origin: Verified
    target: Source


def publish(
    images: Sequence[Path], to: str, key: str, plain: bool, listener: Listener
) -> list[Published]:
    """Sign the list of these images with `key` and put all in `to`, as --to names it.

    Nothing is put anywhere before the list is signed. Raises a RunnerError.
    """
    target = release.source(prebuilt.typed("--to", to), plain)
    with listener.progress() as progress:
        made = _publish(images, target, key, progress)
    return [Published(image.digest, target.uri(made, image)) for image in made.images]


def _publish(images: Sequence[Path], target: Source, key: str, progress: Progress) -> Release:
    single = [_release_of_one(path, progress) for path in images]
    if len({(each.version, each.revision) for each in single}) > 1:
        versions = [f"{path}: {o.version}, {o.revision}" for path, o in zip(images, single)]
        raise Refused("the images are not of one revision", "\n".join(versions))
    made = replace(single[0], images=tuple(each.images[0] for each in single))
    if len(set(map(made.file, made.images))) < len(images):
        raise Refused("two of the images are the same", ", ".join(map(str, images)))
    with _staging_folder(places.images(), made.version) as stage:
        for path, image in zip(images, made.images):
            (stage / made.file(image)).symlink_to(path.absolute())
        listed = stage / prebuilt.file_of(made.version)
        listed.write_bytes(release.written(made))
        pgp.sign(listed, key)
        _publish_files(made, stage, target, progress)
    return made


def _release_of_one(path: Path, progress: Progress) -> Release:
    """Return a release of one image, by what that says of itself; raise Refused for another's."""
    labels = sif.labels(path) or {}
    version, revision = labels.get(f"{LABELS}version"), labels.get(f"{LABELS}revision")
    architecture = sif.architecture(sif.objects(path)) or ""
    name = path.stem.removesuffix(f".{architecture}")  # of an image for other machines
    if name not in {each.name for each in IMAGES.values()} or not version or not revision:
        raise Refused(f"{path} is not an image of this project", "its name, or its labels, are not")
    if not COMMIT.fullmatch(revision):
        raise Refused(
            f"{path} was not built from a commit", f"its revision is {revision}", "git stash"
        )
    digest = digest_of(path, path.name, progress)
    image = ReleasedImage(name, architecture, digest, path.stat().st_size)
    return Release(version, revision, (image,))


def mirror(to: str, source: str | None, plain: bool, listener: Listener) -> Mirrored:
    """Copy this version's release, which is verified, with its signature; to a folder also its key.

    It goes to `to`, as TARGET names it, from `source`, as --from names it, by default from where
    `runner pull` has it. Raises a RunnerError.
    """
    named = (prebuilt.typed("--from", source), "--from") if source else ()
    place = prebuilt.release_source(os.environ, *named)
    target = release.source(prebuilt.typed("TARGET", to), plain)
    origin = release.verified(place, plain)
    with listener.progress() as progress:
        _mirror(origin, target, progress)
    return Mirrored(origin, target)


def _mirror(origin: Verified, target: Source, progress: Progress) -> None:
    if origin.source.text == target.text:
        raise Refused(f"{target.text} is the source itself")
    near = target.path if isinstance(target, Folder) else places.images()
    with _staging_folder(near, origin.release.version) as stage:
        for image in origin.release.images:
            _fetch_image(origin, image, stage / origin.release.file(image), progress)
        listed = stage / prebuilt.file_of(origin.release.version)
        listed.write_bytes(origin.raw)
        listed.with_name(f"{listed.name}.asc").write_bytes(origin.signature)
        _publish_files(origin.release, stage, target, progress)
    if isinstance(target, Folder):
        atomic.write_text(target.path / prebuilt.KEY_FILE, origin.key)


def _fetch_image(origin: Verified, image: ReleasedImage, path: Path, progress: Progress) -> None:
    """Put a released image at `path`, checked: a link to a folder's, a copy of a registry's."""
    if isinstance(origin.source, Folder):
        path.symlink_to(origin.source.uri(origin.release, image))
        if not path.is_file():
            raise NotFound(f"{path.resolve()} is missing")
        digest = digest_of(path, path.name, progress)
    else:
        server = origin.source.server(image.name, origin.release.tag(image))
        disk_space.check(path.parent, image.size, path.name)
        source = sources.resolve(server.reference, image.architecture, server.plain)
        digest = source.write(path, progress)
    if digest != image.digest:
        evidence = f"wanted {image.digest}\nfound  {digest}"
        raise NotVerified(f"{path.resolve()} is not what was released", evidence)


def _publish_files(made: Release, staged: Path, target: Source, progress: Progress) -> None:
    """Copy or push the files of a release to its target, the list last. Raises a RunnerError."""
    if isinstance(target, InRegistry):
        _push_to_registry(made, staged, target, progress)
    else:
        _copy_to_folder(made, staged, target, progress)


def _copy_to_folder(made: Release, staged: Path, target: Folder, progress: Progress) -> None:
    listed = prebuilt.file_of(made.version)
    with disk_space.writing(target.path):
        target.path.mkdir(parents=True, exist_ok=True)
    for name in (*map(made.file, made.images), f"{listed}.asc", listed):
        progress.begin(f"writing {name}")
        path = target.path / name
        with disk_space.writing(path), atomic.new_file(path) as part:
            shutil.copyfile(staged / name, part)
            part.chmod(0o644)


def _push_to_registry(made: Release, staged: Path, target: InRegistry, progress: Progress) -> None:
    for image in made.images:
        path = staged / made.file(image)
        server = target.server(image.name, made.tag(image), PUSH)
        push.upload_sif(server, path, image.digest, progress)
    listed = staged / prebuilt.file_of(made.version)
    kinds = {listed: release.TYPE, listed.with_name(f"{listed.name}.asc"): release.SIGNATURE_TYPE}
    layers = {
        path: Blob(f"sha256:{sha256(path)}", path.stat().st_size, kind)
        for path, kind in kinds.items()
    }
    with oci.artifact(layers, EMPTY_TYPE, release.TYPE) as artifact:
        push.upload(target.server(release.REPOSITORY, made.version, PUSH), artifact, progress)


@contextmanager
def _staging_folder(near: Path, version: str) -> Iterator[Path]:
    """Yield a new folder in `near`; gone in the end."""
    with disk_space.writing(near / "release"):
        near.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".release-{version}.", dir=near) as stage:
            yield Path(stage)
