"""Proving who we are to a registry: a password as such, or a token bought with it.

Docker's "Token authentication specification", which nvcr.io, ghcr.io and Docker Hub want even of
those who pull without a login, and RFC 7617 for the password as such.
"""

from __future__ import annotations

import json
import re
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.parse import urlencode

from ..core import http
from ..core.errors import Refused, SystemFault
from .credentials import Credentials

PARAMETER = re.compile(r'(\w+)="([^"]*)"')
LARGEST_ANSWER = 1 << 20


def secret(challenge: str, base: str, scope: str, who: Credentials | None) -> str:
    """Return the Authorization header that a challenge wants, "" when we have nothing to give.

    `base` is the registry's own URL, `scope` what we want to do there. Raises HTTPError when the
    server of the tokens refuses, or a RunnerError.
    """
    if not challenge.lower().startswith("bearer "):
        return who.basic if who else ""
    asked = dict(PARAMETER.findall(challenge))
    realm = asked.get("realm", "")
    if not realm.startswith("https://" if base.startswith("https:") else "http"):
        raise Refused(f"{base} wants a password sent without encryption", f"to {realm!r}")
    query = {"service": asked["service"]} if "service" in asked else {}
    if scope:
        query["scope"] = scope
    answer = http.send(f"{realm}?{urlencode(query)}", secret=who.basic if who else "")
    try:
        told = json.loads(answer.read(LARGEST_ANSWER))
        return f"Bearer {told.get('token') or told['access_token']}"
    except (OSError, HTTPException, ValueError, LookupError, AttributeError):
        raise SystemFault(f"{realm} gave no token", f"{base} sends us there") from None


def check(base: str, who: Credentials) -> None:
    """Raise HTTPError when the registry at `base` does not take these credentials.

    `apptainer registry login` 1.4.5 stores whatever it is given.
    """
    try:
        http.send(base)
    except HTTPError as error:
        if error.code != 401:
            raise
        header = secret(error.headers.get("WWW-Authenticate", ""), base, "", who)
        http.send(base, secret=header)
