"""Credentials for a registry, from where Apptainer and Docker keep them; the header made of them.

Looked at in this order: the variables of Apptainer and of Singularity, then the files in which
`apptainer registry login` and `docker login` keep it (Apptainer 1.4 writes Docker's own file, older
versions ~/.apptainer/docker-config.json).
A password is never an argument, never in a message, and never written. It is given as such (RFC
7617), or buys a token (Docker's "Token authentication specification"), which nvcr.io, ghcr.io and
Docker Hub want even of those who pull without a login.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from ..core.errors import Refused, SystemFault, UsageError
from ..core.files import DAMAGED
from . import http
from .reference import HUB, HUB_SERVER

HUB_KEYS = (f"https://index.{HUB}/v1/", f"index.{HUB}", HUB_SERVER)
PARAMETER = re.compile(r'(\w+)="([^"]*)"')
LARGEST_ANSWER = 1 << 20
TOKEN = re.compile(r"[!-~]+")  # it becomes a line of a header


@dataclass(frozen=True)
class Credentials:
    """A user's name and password or token, and where they were found."""

    user: str
    password: str = field(repr=False)
    origin: str

    @property
    def basic(self) -> str:
        pair = f"{self.user}:{self.password}".encode()
        return "Basic " + base64.b64encode(pair).decode("ascii")


def find(host: str) -> Credentials | None:
    """Return the credentials for a registry, None where there are none: then we are anonymous."""
    for prefix in ("APPTAINER", "SINGULARITY"):
        user = os.environ.get(f"{prefix}_DOCKER_USERNAME")
        password = os.environ.get(f"{prefix}_DOCKER_PASSWORD")
        if user and password:
            return Credentials(user, password, f"{prefix}_DOCKER_USERNAME")
    for path in _files():
        credentials = _of_file(path, host)
        if credentials:
            return credentials
    return None


def _files() -> Iterator[Path]:
    if os.environ.get("APPTAINER_AUTHFILE"):
        yield Path(os.environ["APPTAINER_AUTHFILE"])
    yield Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker") / "config.json"
    for folder in (".apptainer", ".singularity"):
        yield Path.home() / folder / "docker-config.json"


def _of_file(path: Path, host: str) -> Credentials | None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        keys = (host, f"https://{host}", *(HUB_KEYS if host == HUB else ()))
        for key in keys:
            credentials = _of_entry(content.get("auths", {}).get(key) or {}, path)
            if credentials:
                return credentials
        return None
    except FileNotFoundError:
        return None
    except (OSError, *DAMAGED) as error:
        # The text of the file stays out of the message, since a password may stand in it.
        raise UsageError(
            f"{path} is not readable as JSON", type(error).__name__, id="credentials-unreadable"
        ) from None


def _of_entry(entry: dict[str, Any], path: Path) -> Credentials | None:
    if entry.get("username") and entry.get("password"):
        return Credentials(entry["username"], entry["password"], str(path))
    try:
        pair = base64.b64decode(entry.get("auth", ""), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise UsageError(
            f"{path}: an `auth` there is not base64",
            remedy="log in again",
            id="credentials-malformed",
        ) from None
    user, colon, password = pair.partition(":")
    return Credentials(user, password, str(path)) if colon else None


def header(challenge: str, base: str, scope: str, who: Credentials | None) -> str:
    """Return the Authorization header that a challenge wants, "" when we have nothing to give.

    `base` is the registry's own URL, `scope` what we want to do there. Raises HTTPError when the
    server of the tokens refuses, or a RunnerError.
    """
    if not challenge.lower().startswith("bearer "):
        return who.basic if who else ""
    parameters = dict(PARAMETER.findall(challenge))
    realm = parameters.get("realm", "")
    if not realm.startswith("https://" if base.startswith("https:") else "http"):
        raise Refused(
            f"{base} asks for a password over an unencrypted connection",
            f"to {realm!r}",
            id="password-unencrypted",
        )
    query = {"service": parameters["service"]} if "service" in parameters else {}
    if scope:
        query["scope"] = scope
    answer = http.send(f"{realm}?{urlencode(query)}", secret=who.basic if who else "")
    try:
        return f"Bearer {token(answer.read(LARGEST_ANSWER), realm, base)}"
    except (OSError, HTTPException):
        raise _no_token(realm, base) from None


def token(answer: bytes, realm: str, base: str) -> str:
    """Return the token in what `realm` answered, where the registry `base` had sent us."""
    try:
        content = json.loads(answer)
        value = content.get("token") or content["access_token"]
        if TOKEN.fullmatch(value):
            return str(value)
    except DAMAGED:
        pass
    raise _no_token(realm, base)


def _no_token(realm: str, base: str) -> SystemFault:
    return SystemFault(
        f"{realm} gave no token", f"{base} sends us there", id="registry-token-missing"
    )
