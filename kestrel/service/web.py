"""What browsers need and what protects from them: allowed origins, and security headers."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kestrel.service.errors import ApiError
from kestrel.service.refusal import refuse

EXPOSED_HEADERS = (
    "X-Request-Id", "X-Model", "X-Sample-Rate", "X-Seed", "X-Finish-Reason", "X-Audio-Seconds", "X-Wall-Seconds",
    "X-RTF", "Server-Timing", "Retry-After", "Location", "ETag", "Accept-Ranges", "Content-Range",
)  # fmt: skip
ACCEPTED_HEADERS = (
    "Authorization",
    "Content-Type",
    "Last-Event-ID",
    "Range",
    "If-Range",
    "X-API-Key",
    "X-Request-Id",
    "traceparent",
)

_PAGE_POLICY = (
    "default-src 'self'; img-src 'self' data:; media-src 'self' blob:; worker-src 'self' blob:; object-src 'none'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
# The interface pages are made by the framework: scripts from its content network, and one inline.
_DOCS_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' https://cdn.jsdelivr.net; "
    "style-src 'self' 'unsafe-inline' https://cdn.jsdelivr.net https://fonts.googleapis.com; "
    "font-src https://fonts.gstatic.com; img-src 'self' data: https://fastapi.tiangolo.com https://cdn.redoc.ly; "
    "worker-src 'self' blob:; object-src 'none'; base-uri 'none'; frame-ancestors 'none'"
)
_DOCS = ("/docs", "/redoc")


def origins(listed: str) -> list[str]:
    """Origins of a comma-separated list. Raises ValueError for one that no browser would send."""
    found = [origin.strip().rstrip("/") for origin in listed.split(",") if origin.strip()]
    for origin in found:
        parts = urlsplit(origin)
        if origin != "*" and (not parts.hostname or origin != f"{parts.scheme}://{parts.netloc}"):
            raise ValueError(f"{origin!r} is not an origin; valid: https://example.com, http://localhost:3000, or *")
    return found


def allowed_origin(origin: str | None, host: str | None, allowed: list[str]) -> bool:
    """Whether a page may open a WebSocket: browsers let every page do that, with the right of the user's network."""
    if origin is None or "*" in allowed or origin in allowed:
        return True
    return host is not None and urlsplit(origin).netloc.lower() == host.lower()


class CheckOrigin:
    """ASGI middleware for WebSockets, which the rules for cross-origin requests do not cover."""

    def __init__(self, app: ASGIApp, allowed: list[str]) -> None:
        self.app = app
        self.allowed = allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            headers = Headers(scope=scope)
            if not allowed_origin(headers.get("origin"), headers.get("host"), self.allowed):
                told = "pages of this origin may not connect; the setting KESTREL_CORS_ORIGINS lists those that may"
                await refuse(ApiError(403, told, code="origin_not_allowed"), scope, receive, send)
                return
        await self.app(scope, receive, send)


class SecurityHeaders:
    """ASGI middleware: no guessing of types anywhere; pages may not be framed or load from elsewhere."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message.setdefault("headers", []))
                headers["X-Content-Type-Options"] = "nosniff"
                if headers.get("content-type", "").startswith("text/html"):
                    policy = _DOCS_POLICY if scope["path"].startswith(_DOCS) else _PAGE_POLICY
                    headers.setdefault("Content-Security-Policy", policy)
                    headers.setdefault("Referrer-Policy", "no-referrer")
                    headers.setdefault("X-Frame-Options", "DENY")
            await send(message)

        await self.app(scope, receive, send_with_headers)
