"""Pulls an image: one download, checked, stored under its digest, named and recorded.

A tag is looked up once; what it stood for then is in images.lock, and stays until --update.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from containers.image_catalogue import IMAGES

from ..contract.log_text import human_size
from ..core import disk_space, machine, places, sif
from ..core.errors import NotFound, NotVerified, Refused, SystemFault, UsageError, nearest
from ..core.locks import shared
from ..core.model import ImageInfo
from ..core.progress import Listener, Progress
from ..core.text import utc
from ..registry import sources
from ..registry.reference import FORMS, Reference, checked_digest, image_name, is_remote, parse
from ..registry.registry_client import OTHER_ARCH
from ..registry.sources import ImageSource
from . import container_runtime, local_image
from .store import images_lock, in_use, store
from .store.store import Stored

PREBUILT = f"prebuilt images: {', '.join(IMAGES)}"
OTHERS = f"another image: {FORMS}"
USUAL = "gpu"


@dataclass(frozen=True)
class PullRequest:
    """What is wanted: `digest` is the SIF's, for docker:// the manifest's, "" for any.

    `arch` is in Go's words; `plain` allows http; `update` asks the registry again although the
    folder's images.lock knows the reference.
    """

    reference: Reference
    name: str
    arch: str
    digest: str = ""
    plain: bool = False
    update: bool = False


def request_for(
    uri: str | None,
    listener: Listener,
    *,
    name: str | None = None,
    digest: str = "",
    update: bool = False,
    arch: str = "",
    plain: bool = False,
) -> PullRequest:
    """Return what pulls a URI, or `cpu` or `gpu` by the digest in the list of its source.

    Raises a RunnerError.
    """
    if not uri:
        raise UsageError(
            "name what to pull",
            f"{PREBUILT}\n{OTHERS}",
            f"runner pull {USUAL}",
            id="pull-nothing-named",
        )
    arch, digest = arch or machine.architecture(), checked_digest(digest) if digest else ""
    if uri in IMAGES:
        source, listed = _prebuilt(uri, arch, plain)
        if digest not in ("", listed):
            evidence = f"wanted {digest}\nlisted {listed}"
            raise NotVerified(
                f"the digest of {source.source} is wrong", evidence, id="listed-digest-differs"
            )
        listener.tell(f"{source.source} is listed as {listed}")
        digest = listed
        usual = machine.file_name(IMAGES[uri].name, arch)
    else:
        _check_name(uri)
        source = parse(uri)
        usual = name_of(source)
    return PullRequest(source, image_name(name) if name else usual, arch, digest, plain, update)


def _prebuilt(short: str, arch: str, plain: bool) -> tuple[Reference, str]:
    """Return where `cpu` or `gpu` is, and the digest that its source lists."""
    from . import prebuilt, prebuilt_list  # what others do not need

    place = prebuilt.source(os.environ)
    if not place.text:
        raise prebuilt.no_source(short)
    reference, image = prebuilt_list.find(place, IMAGES[short].name, arch, plain)
    return reference, image.digest


def _check_name(uri: str) -> None:
    """Raise UsageError for a word that is neither an address nor a file.

    That of a file which one of our images becomes names the image.
    """
    path = Path(uri).expanduser()
    if is_remote(uri) or path.exists() or path.name != uri:
        return
    name, _, arch = uri.removesuffix(".sif").partition(".")
    short = next((listed.short for listed in IMAGES.values() if listed.name == name), "")
    known = PREBUILT if short else nearest(uri, IMAGES)
    option = f" --arch {arch}" if short and arch in machine.WORDS.values() else ""
    what = f"{uri} is no file here, and no name of a prebuilt image"
    raise NotFound(
        what, f"{known}\n{OTHERS}", f"runner pull {short or USUAL}{option}", id="pull-name-unknown"
    )


def pull(request: PullRequest, progress: Progress) -> Stored:
    """Return the image, stored, named and recorded in images.lock.

    Raises NotVerified for another digest than the wanted one, and a RunnerError with the reason for
    all else; then nothing new is left, and what was there is as it was.
    """
    _check(request)
    with shared(store.pulls_lock(), progress):
        store.check_name(request.name)
        stored = already(request) or _fetch(request, source_of(request), progress)
        before = store.point(request.name, stored.digest)
        if before not in ("", stored.digest):
            progress.say(f"{request.name} was {before} until now")
        _record(request, stored)
        return stored


def _check(request: PullRequest) -> None:
    entry = images_lock.find(images_lock.here(), request.name)
    if entry and entry.source != request.reference.source and not request.update:
        raise Refused(
            f"{images_lock.FILE} has {request.name} from elsewhere",
            f"from {entry.source}",
            f"runner pull {request.reference.source} --name OTHER, or --update",
            id="lock-has-other-source",
        )
    if not os.access(Path.cwd(), os.W_OK):
        raise Refused(
            f"cannot write {images_lock.here()}",
            remedy="pull in a folder of your own",
            id="lock-not-writable",
        )


def _record(request: PullRequest, stored: Stored) -> None:
    before = locked(request.reference, request.name)
    known = replace(stored, source=request.reference.source, pulled=utc())
    entry = images_lock.LockedImage(name=request.name, **asdict(known))
    if before is None or replace(before, pulled=entry.pulled) != entry:
        images_lock.record(images_lock.here(), entry)
    in_use.hold_lock(images_lock.here())


def locked(reference: Reference, name: str = "") -> images_lock.LockedImage | None:
    """Return what images.lock has for the reference, preferably under this name."""
    entries = [
        entry for entry in images_lock.read(images_lock.here()) if entry.source == reference.source
    ]
    return next((e for e in entries if e.name == name), entries[0] if entries else None)


def name_of(reference: Reference) -> str:
    """Return the name that images.lock has for the reference, else one made of it."""
    entry = locked(reference)
    return entry.name if entry else reference.name


def _pinned(request: PullRequest) -> images_lock.LockedImage | None:
    return None if request.update else locked(request.reference, request.name)


def already(request: PullRequest) -> Stored | None:
    """Return the image that images.lock has for the reference, if it is on this machine."""
    entry = _pinned(request)
    if entry is None:
        return None
    _check_wanted(request, entry.digest, entry.manifest, f"{images_lock.FILE} has")
    stored = store.find(entry.digest)
    return replace(stored, manifest=entry.manifest) if stored else None


def source_of(request: PullRequest) -> ImageSource:
    """Resolve the reference, at the manifest of images.lock if it has one."""
    reference, entry = request.reference, _pinned(request)
    if entry and entry.manifest:
        reference = reference.at(entry.manifest)
    convert = container_runtime.pull
    source = sources.resolve(reference, request.arch, request.plain, convert)
    _check_wanted(request, source.digest, source.manifest, f"{reference.source} has")
    return source


def _check_wanted(request: PullRequest, digest: str, manifest: str, whose: str) -> None:
    actual = manifest if request.reference.kind == "docker" else digest
    if request.digest and actual and request.digest != actual:
        raise NotVerified(
            f"the digest of {request.reference.source} is wrong",
            f"wanted {request.digest}\n{whose} {actual}",
            "--update, if the image was changed on purpose" if "lock" in whose else "",
            id="image-digest-wrong",
        )


def _fetch(request: PullRequest, source: ImageSource, progress: Progress) -> Stored:
    with store.workplace(source.key, progress) as work:
        stored = store.find(source.digest) if source.digest else store.of_manifest(source.manifest)
        if stored is None:
            disk_space.check(work, source.size)
            part = work / "image.sif"
            digest = source.write(part, progress)
            _check_digest(request, source, digest)
            _check_image(request, source, part)
            name = request.reference.source
            stored = store.find(digest) or store.keep(part, digest, name, source.manifest)
        return replace(stored, manifest=source.manifest)


def _check_digest(request: PullRequest, source: ImageSource, digest: str) -> None:
    if source.made:
        return
    entry = _pinned(request)
    wanted = source.digest or request.digest or (entry.digest if entry else "")
    if wanted and digest != wanted:
        raise NotVerified(
            f"{request.reference.source} is not what it should be; removed",
            f"wanted {wanted}\ncame   {digest}",
            "--update, if it was changed on purpose" if entry and not source.digest else "",
            id="pulled-digest-wrong",
        )


def _check_image(request: PullRequest, source: ImageSource, part: Path) -> None:
    try:
        architecture = sif.architecture(sif.objects(part))
    except sif.SifError as error:
        raise Refused(
            f"{request.reference.source} is not a complete SIF file; removed",
            str(error),
            id="pulled-image-truncated",
        ) from None
    # Of an image made here the manifest has told; in the SIF the runtime may write its own kind.
    if architecture and architecture != request.arch and not source.made:
        raise Refused(
            f"{request.reference.source} is not for {request.arch}; removed",
            f"for {architecture}",
            OTHER_ARCH,
            id="pulled-architecture",
        )


def image(uri: str, ahead: bool, progress: Progress) -> ImageInfo:
    """Return the image of a URI, with its labels; pull it, unless only looking `ahead`."""
    reference = parse(uri)
    request = PullRequest(reference, name_of(reference), machine.architecture())
    stored = already(request) if ahead else pull(request, progress)
    if stored is None:
        return _ahead(request, progress)
    return replace(local_image.of_store(stored), source=reference.source)


def _ahead(request: PullRequest, progress: Progress) -> ImageInfo:
    """Say what would be pulled; what the registry tells of it is as good as the image's labels."""
    source, path = request.reference.source, places.images() / request.name
    try:
        remote = source_of(request)
        labels = remote.labels()
    except SystemFault as error:
        progress.say(f"would pull {source}, of which nothing is known now: {error.what}")
        return ImageInfo(path, source=source)
    size = f", {human_size(remote.size)}" if remote.size else ""
    progress.say(f"would pull {source}{size}, {remote.manifest or 'digest unknown'}")
    if remote.digest:
        path = store.path_of(remote.digest)
    return ImageInfo(path, labels, source=source, digest=remote.digest)
