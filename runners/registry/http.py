"""HTTP with the standard library: proxies and SSL_CERT_FILE as the environment has them.

The standard library reads http_proxy, https_proxy and no_proxy, and OpenSSL reads SSL_CERT_FILE and
SSL_CERT_DIR, so there is nothing to set here. It follows redirects, to another server without the
credentials (they are added as an unredirected header), and here never from https to http.
"""

from __future__ import annotations

import os
import re
import socket
import ssl
from email.message import Message
from http.client import HTTPException, HTTPResponse
from typing import IO, BinaryIO, Union, cast
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from ..core.errors import NotVerified, Refused, RunnerError, SystemFault

SECONDS = 30.0  # without a byte
AGENT = "horovod-runner"
# What OpenSSL 1.1 and 3 say of a server that answers in clear text.
CLEAR_TEXT = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE")
LOOPBACK = re.compile(r"localhost|127\.\d+\.\d+\.\d+|::1")
Body = Union[bytes, BinaryIO]


class _Redirects(HTTPRedirectHandler):
    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> Request | None:
        if req.full_url.startswith("https:") and not newurl.startswith("https:"):
            host = urlsplit(newurl).netloc
            raise Refused(
                f"{req.host} sends us to {host} without encryption; not followed",
                id="redirect-unencrypted",
            )
        _check_scheme(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]


def send(
    url: str,
    headers: dict[str, str] | None = None,
    secret: str = "",
    method: str = "GET",
    body: Body | None = None,
) -> HTTPResponse:
    """Return the open answer; `secret` is an Authorization header, for this server alone.

    A file as the body needs its Content-Length among the headers.

    Raises HTTPError for the server to be understood by the caller, and a RunnerError with the next
    command when no server answers at all.
    """
    _check_scheme(url)
    agent = {"User-Agent": AGENT}
    request = Request(url, body, {**agent, **(headers or {})}, method=method)  # noqa: S310  checked
    if secret:
        request.add_unredirected_header("Authorization", secret)
    try:
        # Never a proxy for this machine itself: the runtime, in Go, has none for it either.
        direct = [ProxyHandler({})] if is_loopback(url) else []
        opener = build_opener(_Redirects, *direct)
        return cast(HTTPResponse, opener.open(request, timeout=SECONDS))
    except HTTPError:
        raise
    except URLError as error:
        raise unreachable(url, error.reason) from None
    except (OSError, HTTPException, ValueError) as error:  # led to an address that is none
        raise unreachable(url, error) from None


def is_loopback(url: str) -> bool:
    """Whether a URL is of this machine itself."""
    return LOOPBACK.fullmatch(urlsplit(url).hostname or "") is not None


def read(answer: HTTPResponse, host: str, most: int) -> bytes:
    """Return `most` bytes or less of what `host` answers; raise SystemFault if truncated."""
    try:
        return answer.read(most)
    except (OSError, HTTPException) as error:
        raise SystemFault(
            f"the answer of {host} is truncated", _words(error), id="answer-truncated"
        ) from None


def _check_scheme(url: str) -> None:
    """Refuse what the standard library would open too: files of this machine, and FTP."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise Refused(
            "an address of another kind than http and https",
            f"{urlsplit(url).scheme}:",
            id="address-not-http",
        )


def unreachable(url: str, why: object) -> RunnerError:
    scheme, host = urlsplit(url)[:2]
    if isinstance(why, ssl.SSLCertVerificationError):
        return NotVerified(
            f"{host} has no trusted certificate",
            why.verify_message,
            "SSL_CERT_FILE=/path/of/the/site's/ca.pem runner ...",
            id="host-untrusted",
        )
    if isinstance(why, ssl.SSLError) and why.reason in CLEAR_TEXT:
        return Refused(
            f"{host} does not support https",
            _words(why),
            "--no-https, if you trust it",
            id="host-without-https",
        )
    if isinstance(why, socket.gaierror):
        return SystemFault(
            f"the host {host} does not exist", f"{_words(why)}\n{_proxies()}", id="host-unknown"
        )
    if isinstance(why, (TimeoutError, socket.timeout)):
        return SystemFault(
            f"{host} did not answer within {SECONDS:.0f} s", _proxies(), id="host-timeout"
        )
    return SystemFault(
        f"{host} does not answer",
        f"{_words(why)}\n{_proxies()}",
        f"curl -I {scheme}://{host}/, to see the same without runner",
        id="host-silent",
    )


def _words(error: object) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _proxies() -> str:
    """Name the proxies' variables that are set; their values may hold a password."""
    proxies = [name for name in os.environ if name.lower() in ("http_proxy", "https_proxy")]
    return f"through the proxy of {', '.join(sorted(proxies))}" if proxies else "without a proxy"
