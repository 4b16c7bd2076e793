"""The door before a WSGI application that asks nobody who they are."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, parse_qsl, quote, urlencode

REFUSED = b"403: open the address that `runner tensorboard` has printed, with its token.\n"


class Door:
    """Lets in who has the token: in the address, in a header, or by the cookie for having had it.

    `port` goes into the cookie's name: at 127.0.0.1, the end of a tunnel, browsers send the cookies
    of all ports to each. The cookie is not the token itself.
    """

    def __init__(self, application: Any, token: str, port: int) -> None:
        self.application, self.token = application, token
        self.name = f"runner-{port}"
        self.cookie = hmac.new(token.encode(), self.name.encode(), hashlib.sha256).hexdigest()

    def __call__(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        """Answer one question."""
        given = parse_qs(environ.get("QUERY_STRING", "")).get("token", [""])[0]
        if given and _same(given, self.token):
            return self._welcome(environ, start)
        if self._known(environ):
            answer: Iterable[bytes] = self.application(environ, start)
            return answer
        start("403 Forbidden", [("Content-Type", "text/plain"), ("Cache-Control", "no-store")])
        return [REFUSED]

    def _welcome(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        """Give the cookie, and lead on to the same page without the token in its address."""
        pairs = parse_qsl(environ["QUERY_STRING"], keep_blank_values=True)
        rest = urlencode([pair for pair in pairs if pair[0] != "token"])
        page = "/" + quote(environ.get("PATH_INFO", "").lstrip("/")) + (f"?{rest}" if rest else "")
        cookie = f"{self.name}={self.cookie}; Path=/; HttpOnly; SameSite=Strict"
        headers = [("Location", page), ("Set-Cookie", cookie), ("Referrer-Policy", "no-referrer")]
        start("302 Found", [*headers, ("Cache-Control", "no-store")])
        return [b""]

    def _known(self, environ: dict[str, Any]) -> bool:
        kind, _, given = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
        if kind.lower() in ("token", "bearer"):
            return _same(given, self.token)
        try:
            cookies = SimpleCookie(environ.get("HTTP_COOKIE", ""))
        except CookieError:
            return False
        return self.name in cookies and _same(cookies[self.name].value, self.cookie)


def _same(given: str, wanted: str) -> bool:
    """Compare in a time that does not tell how much was right."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode())
