"""What an image is called: URIs of registries, archives and files.

The grammar of registry names is the OCI distribution specification's ("Pulling manifests"), the
short names of `docker://` are Docker's: no registry means Docker Hub, one word its `library/`.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from ..core.errors import NotFound, UsageError, nearest
from ..core.toml_check import Rule

HUB, HUB_SERVER = "docker.io", "registry-1.docker.io"
HUB_NAMES = (HUB, HUB_SERVER, f"index.{HUB}")
HOST = re.compile(r"(?:[A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\])(?::\d{1,5})?")
REPOSITORY = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*")
TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
Digest = Annotated[str, Rule("sha256: and 64 hexadecimal digits", DIGEST.fullmatch)]
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,199}")
SCHEMES = ("oras", "docker")
WEB = ("https", "http")
FORMS = "oras://, docker:// or a .sif file"
ARCHIVES = ("docker-archive", "oci-archive")
NOT_PUSHED = {
    "library": "apptainer push IMAGE library://USER/COLLECTION/NAME",
    **{
        kind: "runner push IMAGE docker://REGISTRY/NAME:TAG && "
        f"skopeo copy docker://REGISTRY/NAME:TAG {kind}:FILE"
        for kind in ARCHIVES
    },
}
# What the container runtime takes, and this project does not.
BY_RUNTIME = {"library": "pull", **dict.fromkeys(ARCHIVES, "build NAME.sif")}


@dataclass(frozen=True)
class Reference:
    """One image somewhere.

    `kind` is the scheme, or "file"; `text` what the runtime takes; `source` the same as it was
    typed. Registries have `registry` (host and port),
    `repository` and `tag` or `digest` (of the manifest); files have `path`.
    """

    kind: str
    text: str
    source: str
    registry: str = ""
    repository: str = ""
    tag: str = ""
    digest: str = ""
    path: Path = Path()

    @property
    def tag_or_digest(self) -> str:
        """What the registry's API calls it: the digest, else the tag."""
        return self.digest or self.tag

    @property
    def server(self) -> str:
        """The host and port that answer; Docker Hub's differ from its name."""
        return HUB_SERVER if self.registry == HUB else self.registry

    @property
    def name(self) -> str:
        """A file name for it, as `apptainer pull` makes one: repository_tag.sif."""
        if self.repository:
            last = self.repository.rpartition("/")[2]
            label = self.tag or self.digest.replace(":", "-")[: len("sha256-") + 12]
            return f"{last}_{label}.sif"
        return image_name(self.path.name.removesuffix(".sif") or "image")

    def at(self, digest: str) -> Reference:
        """Return the same repository at a manifest's digest."""
        text = f"{self.kind}://{self.registry}/{self.repository}@{digest}"
        return replace(self, text=text, digest=digest)


def is_remote(text: str) -> bool:
    """Whether `text` is a URI or an archive's name, and so nothing to be found as a file."""
    return "://" in text or text.startswith(tuple(f"{kind}:" for kind in ARCHIVES))


def is_image_name(name: str) -> bool:
    """Whether it is a file's name, and not that of an image which is named after its digest."""
    plain = bool(NAME.fullmatch(name)) and not name.startswith("sha256-")
    return plain and name.endswith(".sif")


def image_name(text: str) -> str:
    """Return a name with its ending .sif; raise UsageError for one that cannot be a file's."""
    name = text if text.endswith(".sif") else f"{text}.sif"
    if not is_image_name(name):
        raise UsageError(
            f"{text!r} cannot be an image's name",
            "letters, digits and . _ + - only; `sha256-` starts the names of the stored files",
            id="image-name-invalid",
        )
    return name


def login(host: str) -> str:
    """Return the command that keeps a password for a registry where `credentials` looks for it."""
    return f"apptainer registry login --username NAME docker://{host}"


def checked_digest(text: str) -> str:
    """Return `text`; raise UsageError when it is not sha256: and 64 hexadecimal digits."""
    if not DIGEST.fullmatch(text):
        raise UsageError(
            f"{text!r} is not a digest: sha256: and 64 hexadecimal digits", id="digest-malformed"
        )
    return text


def parse(text: str) -> Reference:
    """Return the reference; raise UsageError when it is malformed, NotFound for an absent file."""
    if any(ord(char) < 33 or ord(char) == 127 for char in text):
        raise UsageError(
            f"{text!r} is not an address: it holds a space or a control character",
            id="address-with-space",
        )
    scheme, colon, rest = text.partition(":")
    if colon and scheme in BY_RUNTIME:
        verb = f"apptainer {BY_RUNTIME[scheme]}"
        raise UsageError(
            f"{scheme}: is nothing that runner pulls",
            FORMS,
            f"{verb} {text}",
            id="address-of-runtime",
        )
    if not rest.startswith("//"):
        return _local(text)
    if scheme in WEB:  # not repeated: a query may be secret
        remedy = "curl --location --remote-name ADDRESS, and runner pull FILE.sif"
        raise UsageError(
            f"runner pulls nothing from {scheme}://", FORMS, remedy, id="address-of-web"
        )
    if scheme not in SCHEMES:
        hint = nearest(scheme, SCHEMES) if scheme != "shub" else "Singularity Hub closed in 2021"
        raise UsageError(
            f"{scheme}:// is no kind of address that can be pulled",
            hint,
            FORMS,
            id="address-scheme-unknown",
        )
    _refuse_credentials(scheme, rest[2:])
    return _registry(scheme, rest[2:])


def target(text: str) -> Reference:
    """Return where an image is to be pushed; raise as `parse`."""
    kind = text.partition(":")[0]
    if kind in NOT_PUSHED:
        raise UsageError(
            f"{kind}: is nothing that runner pushes to", "", NOT_PUSHED[kind], id="push-scheme"
        )
    return parse(text)


def _refuse_credentials(scheme: str, rest: str) -> None:
    """A password in an address would be seen in process lists and files; do not repeat it."""
    _, at, after = rest.rpartition("@")
    if at and not after.startswith("sha256:"):
        raise UsageError(
            f"this {scheme}:// address holds a name or password before the @",
            "it would be seen in the process list",
            login(after.partition("/")[0]),
            id="address-with-password",
        )


def _local(name: str) -> Reference:
    path = Path(os.path.abspath(os.path.expanduser(name)))
    if not path.is_file():
        what = "a folder" if path.is_dir() else "not there"
        raise NotFound(
            f"{name} cannot be pulled: it is {what}",
            f"an image may be {FORMS}",
            id="pull-of-local-path",
        )
    return Reference("file", str(path), str(path), path=path)


def _registry(kind: str, rest: str) -> Reference:
    host, repository = _host(kind, rest)
    repository, _, digest = repository.partition("@")
    repository, colon, tag = repository.partition(":")
    if host == HUB and "/" not in repository:
        repository = f"library/{repository}"
    if not REPOSITORY.fullmatch(repository) or (colon and not TAG.fullmatch(tag)):
        raise UsageError(
            f"{kind}://{rest} is malformed",
            "names are lower case; a tag is one word",
            f"{kind}://REGISTRY/REPOSITORY:TAG",
            id="address-malformed",
        )
    if digest:
        checked_digest(digest)
    elif not tag:
        tag = "latest"
    reference = Reference(kind, "", f"{kind}://{rest}", host, repository, tag, digest)
    ending = f"@{digest}" if digest else f":{tag}"
    return replace(reference, text=f"{kind}://{host}/{repository}{ending}")


def _host(kind: str, rest: str) -> tuple[str, str]:
    first, slash, after = rest.partition("/")
    is_host = bool(slash) and (any(mark in first for mark in ".:[") or first == "localhost")
    if is_host and HOST.fullmatch(first):
        return (HUB if first in HUB_NAMES else first), after
    if kind == "docker" and not is_host:
        return HUB, rest
    raise UsageError(
        f"{kind}://{rest} names no registry",
        remedy=f"{kind}://REGISTRY/IMAGE:TAG",
        id="registry-not-named",
    )
