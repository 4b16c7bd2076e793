"""A registry's API: which digest a tag has now, and the bytes of a blob.

The protocol is the OCI distribution specification 1.1; the token that a registry may want first is
Docker's ("Token authentication", also nvcr.io's, ghcr.io's and Docker Hub's). The runtime could be
asked instead, but tells neither the digest before a download nor why it failed, and takes an image
for another architecture silently.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from typing import Any, Callable
from urllib.error import HTTPError
from urllib.parse import urljoin, urlsplit

from ..core import digest as digests
from ..core.errors import NotFound, NotVerified, Refused, RunnerError, SystemFault, nearest
from ..core.files import DAMAGED
from . import credentials, http
from .reference import DIGEST, Reference, login

OCI, DOCKER = "application/vnd.oci.image", "application/vnd.docker.distribution"
INDEXES = f"{OCI}.index.v1+json", f"{DOCKER}.manifest.list.v2+json"
MANIFESTS = f"{OCI}.manifest.v1+json", f"{DOCKER}.manifest.v2+json"
ACCEPT = {"Accept": ", ".join(INDEXES + MANIFESTS)}
SIF_LAYER = re.compile(r"application/vnd\.(sylabs|apptainer)\.sif\.layer\.v1\.sif")
LARGEST_DOCUMENT = 8 << 20
OTHER_ARCH = "--arch ARCH, if the nodes have another architecture than this machine"


@dataclass(frozen=True)
class Blob:
    """A part of an image: its digest, its size in bytes and its media type."""

    digest: str
    size: int
    type: str


@dataclass(frozen=True)
class ImageManifest:
    """What a tag stands for: the manifest's own digest, its configuration and its layers."""

    digest: str
    config: Blob
    layers: tuple[Blob, ...]


class Registry:
    """One repository of a registry; a token lives as long as this object.

    `plain` is http instead of https, which the user's environment may ask for too; `action` is what
    the token is to allow.
    """

    def __init__(self, reference: Reference, plain: bool, action: str = "pull") -> None:
        self.reference, self.host, self.secret = reference, reference.registry, ""
        self.plain = plain or _http_allowed()
        self.base = f"{'http' if self.plain else 'https'}://{reference.server}/v2/"
        self.scope = f"repository:{reference.repository}:{action}" if reference.repository else ""

    def ask(
        self,
        path: str,
        headers: dict[str, str] | None = None,
        method: str = "GET",
        body: Callable[[], http.Body] | None = None,
    ) -> HTTPResponse:
        """Return the open answer, after logging in if asked to; raise HTTPError or a RunnerError.

        `path` is below /v2/, or an address that the registry gave; `body` gives what is sent.
        """
        url = urljoin(self.base, path)
        ours = self._is_here(url)  # it may store elsewhere

        def send() -> HTTPResponse:
            return http.send(url, headers, self.secret if ours else "", method, body and body())

        try:
            return send()
        except HTTPError as error:
            if error.code != 401 or not self._is_here(error.url) or not self._login(error):
                raise
        return send()

    def _is_here(self, url: str) -> bool:
        """Whether it is the registry's own: what it sends us to gets no secret, nor says where."""
        return urlsplit(url)[:2] == urlsplit(self.base)[:2]

    def _login(self, error: HTTPError) -> bool:
        """Whether there is another secret than what was refused; a token ends after minutes."""
        refused, challenge = self.secret, error.headers.get("WWW-Authenticate", "")
        who = credentials.find(self.host)
        self.secret = credentials.header(challenge, self.base, self.scope, who)
        return self.secret not in ("", refused)

    def manifest(self, arch: str) -> ImageManifest:
        """Return the manifest of the reference for an architecture in Go's words (amd64).

        Raises NotFound, Refused for no access and for another architecture, NotVerified for a
        manifest that is not the one asked for, and SystemFault.
        """
        digest, document = self._document("manifests", self.reference.tag_or_digest)
        try:
            if "manifests" in document:
                chosen = self._choose(document["manifests"], arch)
                digest, document = self._document("manifests", chosen)
            layers = tuple(_blob(layer) for layer in document["layers"])
            return ImageManifest(digest, _blob(document["config"]), layers)
        except DAMAGED:
            raise Refused(
                f"{self.reference.source} is of a kind that cannot be pulled",
                f"its manifest is {document.get('mediaType', 'of schema 1')}",
                id="manifest-unsupported",
            ) from None

    def _document(self, kind: str, place: str) -> tuple[str, dict[str, Any]]:
        """Return the digest and content of a manifest, index or blob at a tag or digest."""
        try:
            path = f"{self.reference.repository}/{kind}/{place}"
            raw = self.ask(path, ACCEPT if kind == "manifests" else None).read(LARGEST_DOCUMENT)
            document = json.loads(raw)
            if not isinstance(document, dict):
                raise ValueError(str(document)[:200])
        except HTTPError as error:
            raise self.fault(error) from None
        except (OSError, HTTPException, ValueError, RecursionError) as error:
            raise SystemFault(
                f"{self.host} does not answer as a registry", str(error), id="not-a-registry"
            ) from None
        digest = digests.of_bytes(raw)
        if DIGEST.fullmatch(place) and digest != place:
            raise NotVerified(f"{self.host} answers {digest} for {place}", id="registry-digest")
        return digest, document

    def _choose(self, entries: list[dict[str, Any]], arch: str) -> str:
        by_architecture: dict[str, Any] = {}
        for entry in entries:
            platform = entry.get("platform") or {}
            if platform.get("os", "linux") == "linux":
                by_architecture.setdefault(platform.get("architecture", arch), entry)
        if arch not in by_architecture:
            raise self.other_architecture(arch, ", ".join(sorted(by_architecture)))
        return _blob(by_architecture[arch]).digest

    def other_architecture(self, wanted: str, available: str) -> Refused:
        return Refused(
            f"{self.reference.source} is not for {wanted}",
            f"for {available}",
            OTHER_ARCH,
            id="registry-architecture",
        )

    def blob(self, blob: Blob, bytes_range: str = "") -> HTTPResponse:
        """Return the open answer with a blob, or a range such as "0-127"; raise a RunnerError."""
        headers = {"Range": f"bytes={bytes_range}"} if bytes_range else {}
        try:
            return self.ask(f"{self.reference.repository}/blobs/{blob.digest}", headers)
        except HTTPError as error:
            raise self.fault(error) from None

    def config(self, manifest: ImageManifest) -> dict[str, Any]:
        """Return an image's configuration: architecture, labels; raise a RunnerError."""
        return self._document("blobs", manifest.config.digest)[1]

    def tags(self) -> list[str]:
        """Return the tags of the repository, none where the registry does not tell."""
        try:
            answer = self.ask(f"{self.reference.repository}/tags/list").read(LARGEST_DOCUMENT)
            return [str(tag) for tag in json.loads(answer).get("tags") or []]
        except (OSError, HTTPException, *DAMAGED):
            return []  # only a hint within another error hangs on this

    def fault(self, error: HTTPError) -> RunnerError:
        answer = _told_by(error)
        if error.code in (401, 403):
            return self._no_access(answer)
        if error.code == 404 and "MANIFEST" in answer:
            tags = self.tags()
            hint = nearest(self.reference.tag_or_digest, tags) if tags else "it has no tags"
            return NotFound(
                f"{self.reference.source} is not there",
                f"{answer}\n{hint}",
                id="registry-image-missing",
            )
        if error.code == 404:
            return NotFound(
                f"{self.host} has no {self.reference.repository}", answer, id="repository-missing"
            )
        if error.code == 405:
            return Refused(f"{self.host} takes no uploads", answer, id="registry-read-only")
        if error.code == 429:
            wait = error.headers.get("Retry-After")
            when = f"in {wait} s" if wait else "later, or logged in"
            return SystemFault(
                f"{self.host} limits the request rate",
                answer,
                f"again {when}",
                id="registry-rate-limit",
            )
        if error.code == 400 and "HTTPS server" in answer:
            return Refused(
                f"{self.host} speaks https",
                answer,
                "leave out --no-https",
                id="registry-speaks-https",
            )
        return SystemFault(f"{self.host} failed: HTTP {error.code}", answer, id="registry-failed")

    def _no_access(self, evidence: str) -> Refused:
        who = credentials.find(self.host)
        us = f"as {who.user} (of {who.origin})" if who else "without a login"
        return Refused(
            f"{self.host} refuses access to {self.reference.repository or 'itself'}, {us}",
            f"{evidence}\nsome registries answer the same if the image does not exist",
            login(self.host),
            id="registry-access",
        )


def _http_allowed() -> bool:
    """Whether the user's environment allows http, in the words of the runtime's --no-https."""
    names = ("APPTAINER_NOHTTPS", "SINGULARITY_NOHTTPS")
    return any(os.environ.get(name, "").lower() in ("1", "true", "yes") for name in names)


def _blob(entry: dict[str, Any]) -> Blob:
    digest, size = str(entry["digest"]), int(entry["size"])
    if not DIGEST.fullmatch(digest) or size < 0:
        raise ValueError(digest)  # it becomes part of addresses and paths
    return Blob(digest, size, str(entry.get("mediaType", "")))


def _told_by(error: HTTPError) -> str:
    """Return what a registry says: `CODE: message` of its JSON, else the start of its text."""
    raw = b""
    try:
        raw = error.read(LARGEST_DOCUMENT) if error.fp else b""
        first = json.loads(raw)["errors"][0]
        return f"{first.get('code', '')}: {first.get('message', '')}"
    except (OSError, HTTPException, *DAMAGED):
        text = raw.decode("utf-8", "replace").strip()[:300]
        return text or f"HTTP {error.code} {error.reason}"
