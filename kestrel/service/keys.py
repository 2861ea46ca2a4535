"""API keys: which ones are valid, and whose a request is. A key is never logged, shown or kept in clear."""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from kestrel.service.errors import AUTHENTICATION, ApiError
from kestrel.service.refusal import refuse

_KEY = re.compile(r"[!-+\--~]{8,256}")
_PROTECTED = ("/v1/", "/metrics")


class KeysError(ValueError):
    """A key or the file of keys cannot be used; the message says where and why, without the key."""


def read_keys(listed: str, file: str) -> list[str]:
    """Keys from a comma-separated list and from a file with one a line. Raises KeysError, OSError."""
    found = [(f"key {number}", key.strip()) for number, key in enumerate(listed.split(","), 1) if key.strip()]
    if file:
        try:
            lines = Path(file).read_text("utf-8").splitlines()
        except UnicodeDecodeError:
            raise KeysError(f"{file} is not a text file in UTF-8") from None
        stripped = [(f"line {number} of {file}", line.strip()) for number, line in enumerate(lines, 1)]
        found += [(where, line) for where, line in stripped if line and not line.startswith("#")]
        if not found:
            raise KeysError(f"{file} holds no key; write one a line")  # an empty file must not mean: open to everyone
    for where, key in found:
        if not _KEY.fullmatch(key):
            raise KeysError(f"{where} is not an API key: 8 to 256 printable ASCII characters, no space, no comma")
    return [key for _, key in found]


class KeyRing:
    """The valid keys. Without any, everyone is let in."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._digests = [_digest(key) for key in keys]

    @property
    def locked(self) -> bool:
        return bool(self._digests)

    def owner(self, headers: Headers) -> str | None:
        """Name of the key that a request carries, fit for counting but not for finding the key; None if it has none.

        Raises ApiError 401 for a missing or wrong key. The time does not depend on how much of a key is right.
        """
        if not self._digests:
            return None
        offered = _offered(headers)
        if not offered:
            told = "send an API key as 'Authorization: Bearer KEY' or 'X-API-Key: KEY'"
            raise _unauthorized(told, code="missing_api_key")
        matching = [
            number
            for key in offered
            for number, digest in enumerate(self._digests)
            if hmac.compare_digest(_digest(key), digest)
        ]
        if not matching:
            raise _unauthorized("the API key is not valid", code="invalid_api_key")
        return f"key {matching[0] + 1}"


def _digest(key: str) -> bytes:
    """Digests have one length, so that comparing them tells nothing about the length of a key."""
    return sha256(key.encode("utf-8", "surrogateescape")).digest()


def _offered(headers: Headers) -> list[str]:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    bearer = token.strip() if scheme.lower() == "bearer" else ""
    return [key for key in (bearer, headers.get("x-api-key", "").strip()) if key]


def _unauthorized(message: str, *, code: str) -> ApiError:
    return ApiError(401, message, code=code, kind=AUTHENTICATION, headers={"WWW-Authenticate": "Bearer"})


class RequireKey:
    """ASGI middleware. Probes, the pages and the interface description stay open; speech and figures need a key."""

    def __init__(self, app: ASGIApp, keys: KeyRing) -> None:
        self.app = app
        self.keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and needs_key(scope["path"]):
            try:
                scope.setdefault("state", {})["key"] = self.keys.owner(Headers(scope=scope))
            except ApiError as error:
                await refuse(error, scope, receive, send)
                return
        await self.app(scope, receive, send)


def needs_key(path: str) -> bool:
    """True for every path under a protected one; a path without its last letters is not found anyway."""
    return path.startswith(_PROTECTED)
